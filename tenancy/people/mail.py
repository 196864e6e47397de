"""The mails that people get: plain text, each with one link and what to do with it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mail:
    subject: str
    body: str


def sign_up(link: str, organization: str) -> Mail:
    return Mail(
        "Confirm your address for Rewind",
        f"You asked for an account at Rewind for {organization}.\n\n"
        f"Confirm this address with the password that you chose, within a day:\n{link}\n\n"
        "If you did not ask for this, do nothing: without the password the link makes no account.\n",
    )


def already_known(login: str, reset: str) -> Mail:
    return Mail(
        "You have an account at Rewind already",
        "Somebody, probably you, asked for an account at Rewind with this address. There is one already.\n\n"
        f"Sign in: {login}\n"
        f"Choose a new password: {reset}\n",
    )


def reset(link: str) -> Mail:
    return Mail(
        "Choose a new password for Rewind",
        "Somebody, probably you, asked for a new password at Rewind.\n\n"
        f"Choose one within an hour:\n{link}\n\n"
        "Your present password stays until you do. If you did not ask for this, do nothing.\n",
    )


def password_changed() -> Mail:
    return Mail(
        "Your password at Rewind was changed",
        "Your password was changed just now, and everybody who was signed in with it is signed out.\n\n"
        "If that was not you, choose a new one at once, on the page where you sign in.\n",
    )


def invitation(link: str, organization: str, inviter: str, role: str) -> Mail:
    article = "an" if role[0] in "aeiou" else "a"
    return Mail(
        f"{inviter} invites you to {organization} at Rewind",
        f"{inviter} invites you to {organization} at Rewind, as {article} {role}.\n\n"
        f"Join within seven days:\n{link}\n",
    )


def provider_linked(provider: str) -> Mail:
    return Mail(
        "A new way to sign in to Rewind",
        f"From now on you can sign in to Rewind with your account at {provider}.\n\n"
        "If you did not do that, remove it on the page of your account, and choose a new password.\n",
    )


def second_factor(text: str) -> Mail:
    return Mail(
        "Your sign-in at Rewind has changed",
        f"{text}\n\nIf that was not you, choose a new password at once, on the page where you sign in.\n",
    )


def closed(link: str, organization: str, closer: str, days: int) -> Mail:
    return Mail(
        f"{organization} at Rewind was closed",
        f"{closer} closed {organization}. Its keys work no more.\n\n"
        f"For {days} days each owner can restore it, as it was:\n{link}\n\n"
        "After that its data is erased for good.\n",
    )


def webhook_switched_off(organization: str, endpoint: str, url: str) -> Mail:
    return Mail(
        f"A webhook of {organization} at Rewind is switched off",
        f"For five days nothing that Rewind sent to\n{url}\nwas accepted, so it sends nothing there any more.\n\n"
        f'Once it answers again, switch the webhook on:\nPATCH /v1/webhooks/{endpoint} {{"enabled": true}}\n'
        f"and have what was missed delivered again:\nPOST /v1/webhooks/{endpoint}/redeliver {{}}\n\n"
        f"What it answered: GET /v1/webhooks/{endpoint}/deliveries. Events are kept for 30 days.\n",
    )

"""What people do that takes several steps: signing up, joining, handing over, new passwords. See `deaths.py`."""

from typing import Any
from uuid import uuid4

from tests.app.deaths import Made, World, a_closing, somebody
from tests.app.test_people import PASSWORD, link
from tests.fixtures.api import Api

NEW_PASSWORD = "eleven yellow submarines"


async def a_sign_up(world: World, made: Made) -> None:
    made["name"] = f"p{uuid4().hex[:12]}"
    made["email"] = f"{made['name']}@example.com"
    made["browser"] = somebody(world.api)
    fields = {"email": made["email"], "password": PASSWORD, "organization": made["name"]}
    await made["browser"].post("/signup", fields)
    made["link"] = await link(world.api, made["email"])
    made["browser"].client.cookies.clear()


async def confirm(world: World, at: Api, made: Made) -> None:
    await world.form(at, somebody(at), made["link"], password=PASSWORD)


async def confirmed(world: World, made: Made) -> Any:
    """(people, sign-ups left, organizations with them as owner)."""
    return await world.row(
        "select (select count(*) from people where email = $1), (select count(*) from signups where email = $1),"
        " (select count(*) from members m join people p on p.id = m.person_id"
        "   join organizations o on o.id = m.organization_id where p.email = $1 and m.role = 'owner')",
        made["email"],
    )


async def an_invitation(world: World, made: Made) -> None:
    await a_closing(world, made)
    made["email"] = f"guest-{made['name']}@example.com"
    path = f"/members?organization={made['organization']}"
    await made["owner"].post(path, {"do": "invite", "email": made["email"], "role": "admin"})
    made["link"] = await link(world.api, made["email"])


async def join(world: World, at: Api, made: Made) -> None:
    await world.form(at, somebody(at), made["link"], password=PASSWORD)


async def joined(world: World, made: Made) -> Any:
    """(people, invitations open, memberships)."""
    return await world.row(
        "select (select count(*) from people where email = $1),"
        " (select count(*) from invitations where email = $1 and settled_at is null),"
        " (select count(*) from members m join people p on p.id = m.person_id where p.email = $1)",
        made["email"],
    )


async def a_transfer(world: World, made: Made) -> None:
    await an_invitation(world, made)
    await join(world, world.api, made)
    [person] = await world.row("select id from people where email = $1", made["email"])
    made["person"] = str(person)


async def transfer(world: World, at: Api, made: Made) -> None:
    path = f"/members?organization={made['organization']}"
    await world.form(at, made["owner"], path, csrf=made["csrf"], do="transfer", person=made["person"])


async def transferred(world: World, made: Made) -> Any:
    return await world.row(
        "select (select role from members where organization_id = $1 and person_id = $2),"
        " (select role from members where organization_id = $1 and person_id <> $2)",
        made["organization"],
        made["person"],
    )


async def a_reset(world: World, made: Made) -> None:
    await a_closing(world, made)
    made["email"] = f"{made['name']}@example.com"
    [made["session"]] = await world.row(
        "select s.id from sessions s join people p on p.id = s.person_id where p.email = $1", made["email"]
    )
    await somebody(world.api).post("/reset", {"email": made["email"]})
    made["link"] = await link(world.api, made["email"])


async def reset(world: World, at: Api, made: Made) -> None:
    await world.form(at, somebody(at), made["link"], password=NEW_PASSWORD)


async def was_reset(world: World, made: Made) -> Any:
    """(links left, the session goes on, the new password signs in, it was told)."""
    left = await world.row(
        "select (select count(*) from resets r join people p on p.id = r.person_id where p.email = $1),"
        " exists (select from sessions where id = $2),"
        " exists (select from mails where recipient = $1 and subject like '%was changed')",
        made["email"],
        made["session"],
    )
    entered = await somebody(world.api).log_in(made["email"], NEW_PASSWORD)
    return (*left, entered.status_code == 303)

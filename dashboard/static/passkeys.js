// Forms that a passkey answers: their fields are sent to data-options, what the device makes of it to data-answer.
"use strict";

async function send(url, fields) {
  const answer = await fetch(url, { method: "POST", body: new URLSearchParams(fields) });
  const found = answer.headers.get("content-type")?.startsWith("application/json") ? await answer.json() : {};
  if (!answer.ok) throw new Error(found.problem ?? `That did not work (${answer.status}): load the page again.`);
  return found;
}

async function answered(form) {
  const fields = Object.fromEntries(new FormData(form));
  const options = await send(form.dataset.options, fields);
  const credential = form.dataset.passkey === "register"
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  delete fields.password;
  return send(form.dataset.answer, { ...fields, credential: JSON.stringify(credential) });
}

function told(error) {
  if (error.name === "NotAllowedError") return "Nothing was signed: it was cancelled, or took too long.";
  if (error.name === "InvalidStateError") return "This device has a passkey for you already.";
  return error.message;
}

if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const problem = form.querySelector("[role=alert]");
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      button.disabled = true;
      problem.hidden = true;
      try {
        location.assign((await answered(form)).next);
      } catch (error) {
        problem.textContent = told(error);
        problem.hidden = false;
      } finally {
        button.disabled = false;
      }
    });
  }
}

// The page of a login.

import { logIn } from "./api.js";
import { el, say } from "./dom.js";

export class LoginView {
  constructor(problem, whenIn) {
    const token = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
    const told = el("p.problem", { role: "alert" }, problem);
    const form = el("form.login", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await logIn(token.value);
        whenIn();
      } catch (refused) {
        say(told, refused.message);
        token.select();
      }
    } }, el("h1", {}, "Log in"), el("p", {}, "Log in with your access token. An administrator makes one with ",
      el("code", {}, "toehold tokens create NAME"), "."),
    el("p", {}, el("label", { for: "token" }, "Token"), token), told, el("button.primary", { type: "submit" }, "Log in"));
    this.element = form;
    this.focus = () => token.focus();
    document.title = "Log in · Toehold";
  }
}

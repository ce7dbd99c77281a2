// Behaviour of all pages: colours, the menu, forms that submit automatically, the slider, and live updates.

const root = document.documentElement;

function dark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("theme")?.addEventListener("click", () => {
  const next = dark() ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("engram-theme", next);
  document.dispatchEvent(new CustomEvent("engram:theme"));
});

const menu = document.querySelector("details.menu");
if (menu && matchMedia("(max-width: 60rem)").matches) menu.open = false;

function prepare(part) {
  for (const select of part.querySelectorAll("select[data-submits]")) prepareSelect(select);
  for (const slider of part.querySelectorAll("input[data-sets]")) prepareSlider(slider);
  for (const button of part.querySelectorAll("button[data-asks]")) {
    button.addEventListener("click", (event) => confirm(button.dataset.asks) || event.preventDefault());
  }
}

// Arrow keys pass other options on the way: submit only on Enter, or when the focus moves on.
function prepareSelect(select) {
  let passing = false;
  const began = select.value;
  const send = () => select.value !== began && select.form.submit();
  select.addEventListener("keydown", (event) => {
    passing = event.key !== "Enter";
    if (!passing) send();
  });
  select.addEventListener("pointerdown", () => (passing = false));
  select.addEventListener("change", () => passing || send());
  select.addEventListener("blur", send);
}

function prepareSlider(slider) {
  const goal = document.getElementById(slider.dataset.sets);
  const from = Date.parse(slider.dataset.from);
  const to = Date.parse(slider.dataset.to);
  slider.hidden = false;
  slider.addEventListener("input", () => {
    const share = Number(slider.value) / Number(slider.max);
    const at = new Date(from + share * (to - from));
    goal.value = share >= 1 ? "" : at.toISOString().slice(0, 16);
  });
  slider.addEventListener("change", () => slider.form.requestSubmit());
}

// Live updates: a page whose content may change is fetched again and replaced, unless the user is working in it.
const region = document.querySelector("[data-live]");
const status = document.getElementById("live");
let waiting = 0;
let timer = 0;

async function refresh() {
  timer = 0;
  const here = document.querySelector("[data-live]");
  if (!here || here.contains(document.activeElement) || document.hidden) return tell();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (answer?.redirected) return say("signed out");
  if (!answer?.ok) return tell();
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("[data-live]");
  if (!fresh) return tell();
  const open = [...here.querySelectorAll("details[open] > summary")].map((each) => each.textContent);
  here.replaceWith(document.adoptNode(fresh));
  for (const summary of fresh.querySelectorAll("details > summary")) {
    if (open.includes(summary.textContent)) summary.parentElement.open = true;
  }
  prepare(fresh);
  document.dispatchEvent(new CustomEvent("engram:fresh"));
  waiting = 0;
  tell();
  again(fresh);
}

// A page whose results are still being calculated is fetched again.
function again(part) {
  if (part?.hasAttribute("data-again") && !timer) timer = setTimeout(refresh, 1500);
}

function tell() {
  say(waiting ? `${waiting} new` : "live");
  if (status) status.dataset.waiting = waiting ? "yes" : "";
}

function say(text) {
  if (!status) return;
  status.hidden = false;
  status.firstElementChild.textContent = text;
}

// A hidden page does not listen: a browser allows few connections to a server, for all of its windows.
let source = null;
let heardBefore = false;

function listen() {
  if (source || document.hidden) return;
  const address = `${document.body.dataset.events}?agent=${encodeURIComponent(document.body.dataset.agent)}`;
  source = new EventSource(address);
  source.onmessage = () => {
    waiting += 1;
    tell();
    if (region && !timer) timer = setTimeout(refresh, 800);
  };
  source.onopen = () => {
    if (heardBefore) refresh(); // events may have been missed
    else tell();
    heardBefore = true;
  };
  source.onerror = (event) => say(event.target.readyState === EventSource.CLOSED ? "no news" : "connecting…");
}

function rest() {
  source?.close();
  source = null;
}

prepare(document);
again(region);
if (document.body.dataset.agent && "EventSource" in window) {
  listen();
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
}
status?.addEventListener("click", () => (document.querySelector("[data-live]") ? refresh() : location.reload()));
if (document.getElementById("drawing")) import("./graph.js");

// What all pages do: colours, the menu, forms that send themselves, the slider, and news.

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
  for (const select of part.querySelectorAll("select[data-submits]")) {
    select.addEventListener("change", () => select.form.submit());
  }
  for (const slider of part.querySelectorAll("input[data-sets]")) prepareSlider(slider);
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

// News: a page that shows what may change is fetched again and put in place, unless somebody is working in it.
const region = document.querySelector("[data-live]");
const status = document.getElementById("live");
let waiting = 0;
let timer = 0;

async function refresh() {
  timer = 0;
  const here = document.querySelector("[data-live]");
  if (!here || here.contains(document.activeElement) || document.hidden) return tell();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) return tell();
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

// A page that is still working something out is asked again.
function again(part) {
  if (part?.hasAttribute("data-again") && !timer) timer = setTimeout(refresh, 1500);
}

function tell() {
  if (!status) return;
  status.hidden = false;
  status.dataset.waiting = waiting ? "yes" : "";
  status.textContent = waiting ? `${waiting} new` : "live";
}

function listen() {
  const address = `${document.body.dataset.events}?agent=${encodeURIComponent(document.body.dataset.agent)}`;
  const source = new EventSource(address);
  const heard = () => {
    waiting += 1;
    tell();
    if (region && !timer) timer = setTimeout(refresh, 800);
  };
  for (const name of ["stored", "forgotten", "decision", "outcome", "failure", "solution", "check", "checked", "ran"]) {
    source.addEventListener(name, heard);
  }
  source.onopen = tell;
  source.onerror = () => {
    if (status) {
      status.hidden = false;
      status.textContent = source.readyState === EventSource.CLOSED ? "no news" : "connecting…";
    }
  };
  addEventListener("pagehide", () => source.close());
}

prepare(document);
again(region);
if (document.body.dataset.agent && "EventSource" in window) listen();
status?.addEventListener("click", refresh);
if (document.getElementById("drawing")) import("./graph.js");

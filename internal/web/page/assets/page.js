// The page's live updates and buttons. Without it a page shows what was when it was loaded.
"use strict";

const $ = (id) => document.getElementById(id);

// say has a screen reader read a text, once.
function say(text) {
  if (text && $("heard").textContent !== text) $("heard").textContent = text;
}

// Times are in the reader's own zone.
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
function localize(root) {
  for (const t of root.querySelectorAll("time[datetime]:not([data-keep])")) t.textContent = zone.format(new Date(t.dateTime));
}

// morph makes an element what another one is, and keeps what is the same: focus, selection, what is folded out.
const kept = new Set(["DETAILS", "INPUT"]);
function morph(from, to) {
  for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !(a.name === "open" && kept.has(from.nodeName))) from.removeAttribute(a.name);
  for (const a of to.attributes) if (from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
  const keyed = new Map();
  for (const c of from.children) if (c.dataset && c.dataset.key) keyed.set(c.dataset.key, c);
  let old = from.firstChild;
  for (let next = to.firstChild; next; ) {
    const wanted = next;
    next = next.nextSibling;
    const key = wanted.dataset && wanted.dataset.key;
    const same = key ? keyed.get(key) : old && fits(old, wanted) ? old : null;
    if (!same) {
      from.insertBefore(wanted, old);
      continue;
    }
    if (same === old) old = old.nextSibling;
    else from.insertBefore(same, old);
    keyed.delete(key); // it stands for one element only
    if (same.nodeType === Node.ELEMENT_NODE) {
      if (!same.isEqualNode(wanted)) morph(same, wanted);
    } else if (same.nodeValue !== wanted.nodeValue) same.nodeValue = wanted.nodeValue;
  }
  while (old) {
    const gone = old;
    old = old.nextSibling;
    gone.remove();
  }
}
function fits(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && !(a.dataset && a.dataset.key) && a.id === b.id;
}

function show(html) {
  const fresh = document.createElement("main");
  fresh.innerHTML = html; // made by the server's templates, which escape; the policy lets no script of it run
  localize(fresh);
  fresh.id = "main";
  fresh.tabIndex = -1;
  morph($("main"), fresh);
  const announced = document.querySelector("[data-announce]");
  if (announced) say(announced.dataset.announce);
}

// live shows whether what the page shows is of now.
let lost = null;
function live(state, words) {
  const was = $("live").dataset.state;
  $("live").dataset.state = state;
  $("live-words").textContent = words;
  if (state === "lost" && was !== "lost") say("The connection is lost. This page goes on by itself.");
  if (state === "on" && was === "lost") say("The connection is there again.");
}

// connect takes what is new, for as long as the page is open: over restarts of the server, too.
const longest = 10000; // ms between two tries
let wait = 500;
let source = null;
let retry = 0; // the timer of the next try
function connect(address) {
  clearTimeout(retry);
  source = new EventSource(address + (address.includes("?") ? "&" : "?") + "html=true");
  source.addEventListener("view", (e) => {
    const news = JSON.parse(e.data);
    if (news.build !== document.body.dataset.build || document.querySelector("[data-wait]")) return location.reload();
    wait = 500;
    lost = null;
    live("on", "live");
    show(news.html);
  });
  source.addEventListener("trouble", (e) => live("lost", JSON.parse(e.data).message));
  source.onerror = () => {
    lost = lost || new Date();
    live("lost", "no connection since " + zone.format(lost) + "; trying again");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    source.close();
    retry = setTimeout(() => connect(address), wait);
    wait = Math.min(2 * wait, longest);
    reloadIfRefused();
  };
}

// reloadIfRefused has the server ask for its token if that of this browser is none any more.
async function reloadIfRefused() {
  try {
    const answer = await fetch(location.href, { method: "HEAD" });
    if (answer.status === 401) location.reload();
  } catch {
    // the server is away: the next try comes
  }
}

// A page that nobody sees asks for nothing.
function watchVisibility(address) {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      clearTimeout(retry);
      source.close();
      source = null;
      live("off", "not live while it is out of sight");
    } else if (!document.hidden && !source) connect(address);
  });
}

// Copying.
document.addEventListener("click", async (e) => {
  const button = e.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
    say("Copied.");
    setTimeout(() => button.classList.remove("done"), 1500);
  } catch {
    const code = button.previousElementSibling;
    if (code) getSelection().selectAllChildren(code);
    say("It cannot be copied from here: it is selected.");
  }
});

// Actions: a dialog shows the command, and asks.
function quote(word) {
  return /^[A-Za-z0-9_.,:\/@%+=-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}
const bodies = {
  stop: (f) => ({ body: { grace: f.grace || undefined, reason: f.reason || undefined }, words: [f.grace && "--grace", f.grace, f.reason && "--reason", f.reason] }),
  redrive: (f) => ({ body: { where: f.where || undefined }, words: [f.where && "--where", f.where] }),
  set: (f) => {
    const settings = (f.settings || "").split(/\s+/).filter(Boolean);
    return { body: { settings }, words: settings };
  },
};
let asking = null;

function values() {
  return Object.fromEntries([...$("ask-fields").querySelectorAll("input")].map((i) => [i.name, i.value.trim()]));
}

function request() {
  const made = (bodies[asking.dataset.action] || (() => ({ body: {}, words: [] })))(values());
  const command = asking.dataset.action === "set" ? asking.dataset.command.split(" ").slice(0, -1).join(" ") : asking.dataset.command;
  $("ask-command").textContent = [command, ...made.words.filter(Boolean).map(quote)].join(" ");
  return made.body;
}

function ask(button, given) {
  asking = button;
  $("ask-title").textContent = button.dataset.label;
  $("ask-hint").textContent = button.dataset.hint;
  $("ask-yes").textContent = button.dataset.label;
  $("ask-said").textContent = "";
  const fields = document.querySelector(`template[data-fields="${button.dataset.action}"]`);
  $("ask-fields").replaceChildren(fields ? fields.content.cloneNode(true) : "");
  for (const [name, value] of Object.entries(given || {})) $("ask-fields").querySelector(`[name="${name}"]`).value = value;
  request();
  $("ask").showModal();
}

async function carryOut() {
  $("ask-yes").disabled = true;
  try {
    const answer = await fetch(asking.dataset.path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request()),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error ? said.error.message : answer.statusText);
    $("ask").close();
    say(said.said);
  } catch (error) {
    $("ask-said").textContent = error.message;
  } finally {
    $("ask-yes").disabled = false;
  }
}

document.addEventListener("click", (e) => {
  const button = e.target.closest("button.act");
  if (!button) return;
  if (button.dataset.action) ask(button);
  else ask(document.querySelector(`button[data-action="${button.dataset.act}"]`), button.dataset.where ? { where: button.dataset.where } : {});
});
document.addEventListener("input", (e) => {
  if (asking && e.target.closest("#ask-fields")) request();
});
$("ask").addEventListener("submit", (e) => {
  if (!e.submitter || e.submitter.value !== "yes") return;
  e.preventDefault();
  carryOut();
});

localize(document);
const events = document.body.dataset.events;
if (events) {
  connect(events);
  watchVisibility(events);
}

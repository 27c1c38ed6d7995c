// The page itself: tabs, links within the page, theme, keys. The overview is there without it.

const VIEWS = {
  passes: passesView,
  graph: graphView,
  kernels: kernelsView,
  memory: memoryView,
  accuracy: accuracyView,
};

/** Unpack a block of the page: base64 of zlib of JSON. */
async function unpack(id) {
  const letters = atob(document.getElementById(id).textContent.trim());
  const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function startTheme() {
  const button = document.getElementById("theme");
  const names = ["auto", "light", "dark"];
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `theme: ${name}`;
    try {
      localStorage.setItem("ascendfx-report-theme", name);
    } catch {
      // a page opened from a file may have no storage; the choice then lasts as long as the page
    }
  };
  let kept = null;
  try {
    kept = localStorage.getItem("ascendfx-report-theme");
  } catch {
    kept = null;
  }
  set(names.includes(kept) ? kept : "auto");
  button.addEventListener("click", () =>
    set(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]),
  );
}

function startTabs(page) {
  const tablist = document.querySelector("[role=tablist]");
  const tabs = [...tablist.querySelectorAll("[role=tab]")];
  const views = {};
  const panelOf = (name) => document.getElementById(`panel-${name}`);
  const nameOf = (tab) => tab.dataset.tab;
  page.current = null;
  page.open = (name, ...rest) => {
    const tab = tabs.find((each) => nameOf(each) === name) ?? tabs[0];
    const chosen = nameOf(tab);
    for (const each of tabs) {
      each.setAttribute("aria-selected", String(each === tab));
      panelOf(nameOf(each)).hidden = each !== tab;
    }
    stopAt(tablist, "[role=tab]", tab);
    page.current = chosen;
    if (chosen in VIEWS) {
      if (!views[chosen]) {
        views[chosen] = VIEWS[chosen](page);
        replace(
          panelOf(chosen),
          h("h2", { class: "visually-hidden" }, tab.textContent),
          views[chosen].element,
        );
      }
      views[chosen].show(...rest);
    }
    if (!(chosen in VIEWS) || !rest.length) page.remember(chosen, ...(page.places[chosen] ?? []));
  };
  page.focusPanel = () => {
    const panel = panelOf(page.current);
    (
      panel.querySelector('[role=option][tabindex="0"], tr[tabindex="0"], .box[tabindex="0"]') ??
      panel
    ).focus();
  };
  tablist.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) page.open(nameOf(tab));
  });
  roving(tablist, "[role=tab]", { onFocus: (tab) => page.open(nameOf(tab)) });
}

function startLinks(page) {
  page.places = {};
  page.link = (...parts) => `#${parts.map((part) => encodeURIComponent(part)).join("/")}`;
  page.remember = (name, ...rest) => {
    if (rest.length) page.places[name] = rest;
    if (page.current !== name) return;
    try {
      history.replaceState(null, "", page.link(name, ...rest));
    } catch {
      // a frame without an address: links within the page still work
    }
  };
  const follow = () => {
    let parts = ["overview"];
    try {
      parts = location.hash.slice(1).split("/").map(decodeURIComponent);
    } catch {
      parts = ["overview"]; // a cut-off address
    }
    page.open(...(parts[0] ? parts : ["overview"]));
  };
  window.addEventListener("hashchange", follow);
  return follow;
}

function startKeys(page) {
  const help = document.getElementById("help");
  document.getElementById("keys").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || help.open) return;
    const tabs = [...document.querySelectorAll("[role=tab]")];
    if (event.key === "/") document.getElementById("search").focus();
    else if (event.key === "?") help.showModal();
    else if (/^[1-9]$/.test(event.key) && tabs[Number(event.key) - 1]) {
      page.open(tabs[Number(event.key) - 1].dataset.tab);
      page.focusPanel();
    } else return;
    event.preventDefault();
  });
}

async function start() {
  startTheme();
  const page = {};
  try {
    page.data = await unpack("data");
  } catch (error) {
    const note = document.getElementById("note");
    note.hidden = false;
    note.textContent = `The parts below the overview cannot be shown: ${error}. This page needs a browser with DecompressionStream (Chrome or Edge 80, Firefox 113, Safari 16.4, or later).`;
    return;
  }
  let texts = null;
  page.texts = () => (texts ??= unpack("kernel-texts"));
  const follow = startLinks(page);
  startTabs(page);
  startKeys(page);
  searchBox(
    page,
    document.getElementById("search"),
    document.getElementById("found"),
    document.getElementById("found-count"),
  );
  follow();
  document.documentElement.dataset.ready = "true";
}

start();

// Search over passes, kernels, nodes of the last programs, buffers; `/` comes here.

const MOST = 40;

/** Everything that can be found: {kind, text, more, link}. */
function searchEntries(page) {
  const { data } = page;
  const entries = [];
  for (const stage of data.stages) {
    stage.versions.forEach((version, index) => {
      if (index)
        entries.push({
          kind: "pass",
          text: `${stage.name} / ${String(index).padStart(2, "0")} ${version.name}`,
          more: version.changes
            .filter((change) => !change.name.includes('"'))
            .map((change) => `@${change.name}`)
            .join(" "),
          link: ["passes", stage.name, index],
        });
    });
    for (const kernel of stage.plan?.kernels ?? [])
      entries.push({
        kind: "kernel",
        text: kernel.name,
        more: kernel.family,
        link: ["kernels", stage.name, kernel.name],
      });
  }
  for (const stage of data.stages) {
    if (!stage.plan && data.stages.some((each) => each.plan)) continue;
    const index = stage.versions.length - 1;
    for (const number of stage.versions[index].graphs) {
      const graph = data.graphs[number];
      graph.nodes.forEach((_, position) => {
        const part = lineParts(data, graph, position);
        entries.push({
          kind: "node",
          text: `@${graph.name} %${position} ${part.op} ${part.name}`.trim(),
          more: `${stage.name} ${part.place ? `${part.place[2]} ${fileName(part.place[0])}:${part.place[1]}` : ""}`,
          link: ["graph", stage.name, index, graph.name, position],
        });
      });
    }
  }
  return entries;
}

/** Entries that hold every word, those whose text starts with the first one first. */
function findEntries(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const entry of entries) {
    entry.all ??= `${entry.kind} ${entry.text} ${entry.more}`.toLowerCase();
    if (words.every((word) => entry.all.includes(word))) found.push(entry);
  }
  const rank = (entry) => (entry.text.toLowerCase().includes(words[0]) ? 0 : 1);
  return found
    .map((entry, k) => [rank(entry), k, entry])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .map((each) => each[2]);
}

function searchBox(page, input, list, status) {
  let entries = null;
  let at = -1;
  const options = () => [...list.children];
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    at = -1;
  };
  const mark = (index) => {
    at = index;
    options().forEach((option, k) => option.setAttribute("aria-selected", String(k === at)));
    if (at >= 0) {
      input.setAttribute("aria-activedescendant", options()[at].id);
      options()[at].scrollIntoView({ block: "nearest" });
    }
  };
  const go = (option) => {
    const link = JSON.parse(option.dataset.link);
    close();
    input.value = "";
    page.open(...link);
    page.focusPanel();
  };
  const update = () => {
    entries ??= searchEntries(page);
    const found = findEntries(entries, input.value);
    replace(
      list,
      found.slice(0, MOST).map((entry, k) =>
        h(
          "li",
          {
            role: "option",
            id: `found-${k}`,
            "aria-selected": "false",
            "data-link": JSON.stringify(entry.link),
          },
          h("span", { class: `tag ${entry.kind}` }, entry.kind),
          h("span", { class: "text" }, entry.text),
          h("span", { class: "muted" }, entry.more),
        ),
      ),
    );
    status.textContent = input.value.trim() ? `${found.length} found` : "";
    if (!input.value.trim()) return close();
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (!found.length) list.append(h("li", { class: "muted none" }, "nothing found"));
    mark(found.length ? 0 : -1);
  };
  input.addEventListener("input", update);
  input.addEventListener("keydown", (event) => {
    const size = options().filter((option) => option.id).length;
    if (event.key === "Escape") {
      if (input.value) input.value = "";
      else input.blur();
      close();
    } else if (event.key === "ArrowDown" && size) mark((at + 1) % size);
    else if (event.key === "ArrowUp" && size) mark((at + size - 1) % size);
    else if (event.key === "Enter" && at >= 0) go(options()[at]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) go(option);
  });
  input.addEventListener("blur", close);
}

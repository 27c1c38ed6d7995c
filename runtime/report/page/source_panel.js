// Places in the model's source: a button with file and line, and the lines themselves on demand.

function fileName(file) {
  return file.split(/[\\/]/).pop();
}

function isAbsolute(file) {
  return /^(\/|[A-Za-z]:[\\/])/.test(file);
}

/** Links that open a file at a line; only for absolute paths. */
function sourceLinks(file, line) {
  if (!isAbsolute(file)) return [];
  const path = file
    .replace(/\\/g, "/")
    .split("/")
    .map(encodeURIComponent)
    .join("/")
    .replace(/%3A/g, ":");
  const rooted = path.startsWith("/") ? path : `/${path}`;
  return [
    h(
      "a",
      { href: `vscode://file${rooted}:${line}`, title: "open in Visual Studio Code" },
      "editor",
    ),
    h("a", { href: `file://${rooted}`, title: file }, "file"),
  ];
}

/** The lines around a place, or why they are not shown. */
function sourceLines(data, place) {
  const [file, line, module] = place;
  const run = (data.sources[file] ?? []).find(
    ([first, lines]) => line >= first && line < first + lines.length,
  );
  const around = 4;
  const shown = run
    ? run[1]
        .map((text, k) => [run[0] + k, text])
        .filter(([number]) => Math.abs(number - line) <= around)
    : [];
  return h(
    "div",
    { class: "source", role: "group", "aria-label": `source, ${fileName(file)} line ${line}` },
    h(
      "div",
      { class: "source-head" },
      h("span", { class: "path" }, `${file}:${line}`),
      module ? h("span", { class: "muted" }, ` in ${module}`) : null,
      h("span", { class: "links" }, sourceLinks(file, line)),
    ),
    shown.length
      ? h(
          "pre",
          { tabindex: "0", "aria-label": `lines ${shown[0][0]} to ${shown[shown.length - 1][0]}` },
          shown.map(([number, text]) =>
            h(
              "span",
              { class: number === line ? "line here" : "line" },
              h("span", { class: "number" }, number),
              text,
              "\n",
            ),
          ),
        )
      : h("p", { class: "muted" }, "The file was not readable when this page was written."),
  );
}

/** A button that shows and hides the source behind `host()`; `host` returns the element to follow. */
function placeButton(data, place, host) {
  if (!place) return null;
  let panel = null;
  const button = h(
    "button",
    {
      class: "place",
      type: "button",
      "aria-expanded": "false",
      title: `${place[0]}:${place[1]}${place[2] ? ` in ${place[2]}` : ""}`,
      onclick: () => {
        if (panel) panel.remove();
        panel = panel ? null : sourceLines(data, place);
        if (panel) host().append(panel);
        button.setAttribute("aria-expanded", String(Boolean(panel)));
      },
    },
    `${fileName(place[0])}:${place[1]}`,
  );
  return button;
}

// A changed function, before and after, side by side.

const LONG = 140; // letters of an unchanged run shown at once

function diffSection(data, change) {
  const counts = diffCounts(change, data.graphs);
  const old = change.before === null ? null : data.graphs[change.before];
  const now = change.after === null ? null : data.graphs[change.after];
  const moved = movedNodes(change);
  const body = h("tbody");
  const summary = `@${change.name}: ${counts.added} added, ${counts.removed} removed, ${counts.edited} changed`;
  const addRows = (rows) =>
    rows.map((row) =>
      row.kind === "folded" ? foldedRow(row, body, addRows) : diffRow(data, old, now, moved, row),
    );
  body.append(...addRows(foldRows(diffRows(change, data.graphs))));
  body.append(outputsRow(old, now, change.outputs !== false));
  const table = h(
    "table",
    { class: "diff", "aria-label": `${summary}; before on the left, after on the right` },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, old ? "before" : "not there before"),
        h("th", { scope: "col" }, now ? "after" : "not there after"),
      ),
    ),
    body,
  );
  return h(
    "details",
    { open: true, class: "function" },
    h(
      "summary",
      {},
      h("code", {}, `@${change.name}`),
      h("span", { class: "count added" }, `+${counts.added}`),
      h("span", { class: "count removed" }, `−${counts.removed}`),
      h("span", { class: "count edited" }, `~${counts.edited}`),
    ),
    table,
  );
}

function foldedRow(row, body, addRows) {
  const element = h(
    "tr",
    { class: "folded" },
    h(
      "td",
      { colspan: "2" },
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            const rows = addRows(row.rows);
            element.replaceWith(...rows);
            rows[0].querySelector("button")?.focus();
          },
        },
        `⋯ ${row.rows.length} ${row.what} lines`,
      ),
    ),
  );
  return element;
}

function diffRow(data, old, now, moved, row) {
  const before = row.before === null ? null : lineParts(data, old, row.before);
  const after = row.after === null ? null : lineParts(data, now, row.after);
  const marks = row.kind === "edited" ? lineDiff(before, after, moved) : [null, null];
  const said = {
    same: "",
    edited: "changed",
    removed: "removed",
    added: "added",
    replaced: "replaced",
  }[row.kind];
  return h(
    "tr",
    { class: row.kind },
    lineCell(
      data,
      before,
      marks[0],
      before && row.kind !== "same" ? "old" : "",
      said,
      before && !(after && String(before.place) === String(after.place)),
    ),
    lineCell(data, after, marks[1], after && row.kind !== "same" ? "new" : "", said, true),
  );
}

function lineCell(data, parts, marks, side, said, placed) {
  if (!parts) return h("td", { class: "empty" });
  const cell = h("td", { class: side });
  cell.append(
    h(
      "div",
      { class: "cell" },
      side
        ? h("span", { class: "sign", "aria-label": said }, side === "old" ? "−" : "+")
        : h("span", { class: "sign" }, " "),
      h("code", { class: "ir" }, irLine(parts, marks)),
      placed ? placeButton(data, parts.place, () => cell) : null,
    ),
  );
  return cell;
}

/** A line in colours; `marks` says which pieces changed. */
function irLine(parts, marks) {
  const piece = (kind, text, changed) => h(changed ? "mark" : "span", { class: kind }, text);
  const run = (kind, text, found) =>
    (found ?? [[text, false]])
      .filter(([word]) => word)
      .map(([word, changed], k, all) =>
        changed ? piece(kind, word, true) : shortened(kind, word, k > 0, k + 1 < all.length),
      );
  const named = parts.op === "input" || parts.op === "param";
  return [
    piece("value", `%${parts.position}`, false),
    " = ",
    piece("op", parts.op, marks?.op),
    named ? [' "', run("name", parts.name, marks?.name), '"'] : null,
    parts.operands.map((value, k) => [
      k ? ", " : " ",
      piece("value", valueText(value), marks?.operands[k]),
    ]),
    parts.attributes ? [" ", run("attributes", parts.attributes, marks?.attributes)] : null,
    " : ",
    run("types", parts.types, marks?.types),
  ];
}

/** Text without its middle if it is long, as the keys of a call are; a button shows it. */
function shortened(kind, text, hasLeft, hasRight) {
  if (text.length <= LONG) return h("span", { class: kind }, text);
  const head = text.slice(0, hasLeft ? 16 : 36);
  const tail = text.slice(-(hasRight ? 16 : 4));
  const middle = text.slice(head.length, text.length - tail.length);
  const button = h(
    "button",
    {
      type: "button",
      class: "more",
      title: "show all",
      "aria-label": `show ${middle.length} more letters`,
      onclick: () => button.replaceWith(middle),
    },
    `… ${count(middle.length)} …`,
  );
  return h("span", { class: kind }, head, button, tail);
}

function outputsRow(old, now, same) {
  const cell = (graph, side) =>
    graph
      ? h(
          "td",
          { class: same ? "" : side },
          h(
            "div",
            { class: "cell" },
            h("span", { class: "sign" }, same ? " " : side === "old" ? "−" : "+"),
            h(
              "code",
              { class: "ir" },
              h("span", { class: "op" }, "return "),
              graph.outputs.map(valueText).join(", "),
            ),
          ),
        )
      : h("td", { class: "empty" });
  return h("tr", { class: same ? "same" : "edited" }, cell(old, "old"), cell(now, "new"));
}

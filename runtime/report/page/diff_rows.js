// Rows of a side-by-side diff, from the runs that the page's data holds. No document is needed.

const CONTEXT = 3;
const LONG_RUN = 32; // rows of one kind
const KEPT = 8; // shown at each end of a longer run

/** All rows of one changed graph: {kind, before, after}; positions, or null on the empty side. */
function diffRows(change, graphs) {
  const old = change.before === null ? 0 : graphs[change.before].nodes.length;
  const now = change.after === null ? 0 : graphs[change.after].nodes.length;
  const pairs = [];
  for (const [i, j, length] of change.runs)
    for (let k = 0; k < length; k++) pairs.push([i + k, j + k, "same"]);
  for (const [i, j] of change.edited ?? []) pairs.push([i, j, "edited"]);
  pairs.sort((a, b) => a[0] - b[0]);
  const rows = [];
  let i = 0;
  let j = 0;
  for (const [a, b, kind] of [...pairs, [old, now, null]]) {
    while (i < a || j < b)
      rows.push({
        kind: i < a && j < b ? "replaced" : i < a ? "removed" : "added",
        before: i < a ? i++ : null,
        after: j < b ? j++ : null,
      });
    if (kind) rows.push({ kind, before: i++, after: j++ });
  }
  return rows;
}

/**
 * The rows with unchanged ones far from a change folded, and the middle of a long run of added or
 * of removed ones: {kind: "folded", what, rows}.
 */
function foldRows(rows, context = CONTEXT) {
  const near = new Array(rows.length).fill(false);
  rows.forEach((row, index) => {
    if (row.kind === "same") return;
    for (let k = Math.max(0, index - context); k <= Math.min(rows.length - 1, index + context); k++)
      near[k] = true;
  });
  const found = [];
  rows.forEach((row, index) => {
    const last = found[found.length - 1];
    if (near[index]) found.push(row);
    else if (last && last.kind === "folded") last.rows.push(row);
    else found.push({ kind: "folded", what: "unchanged", rows: [row] });
  });
  // a fold of one line is longer than the line
  return foldRuns(
    found.flatMap((row) => (row.kind === "folded" && row.rows.length === 1 ? row.rows : [row])),
  );
}

function foldRuns(rows) {
  const found = [];
  for (let start = 0; start < rows.length;) {
    const { kind } = rows[start];
    let end = start + 1;
    while (end < rows.length && rows[end].kind === kind) end++;
    const run = rows.slice(start, end);
    if ((kind === "added" || kind === "removed") && run.length > LONG_RUN)
      found.push(
        ...run.slice(0, KEPT),
        { kind: "folded", what: kind, rows: run.slice(KEPT, -KEPT) },
        ...run.slice(-KEPT),
      );
    else found.push(...run);
    start = end;
  }
  return found;
}

/** Numbers of added, removed and edited lines. */
function diffCounts(change, graphs) {
  const counts = { added: 0, removed: 0, edited: (change.edited ?? []).length };
  const kept = change.runs.reduce((sum, run) => sum + run[2], 0) + counts.edited;
  if (change.before !== null) counts.removed = graphs[change.before].nodes.length - kept;
  if (change.after !== null) counts.added = graphs[change.after].nodes.length - kept;
  return counts;
}

/** Position after the pass of each kept node before it. */
function movedNodes(change) {
  const moved = new Map();
  for (const [i, j, length] of change.runs)
    for (let k = 0; k < length; k++) moved.set(i + k, j + k);
  for (const [i, j] of change.edited ?? []) moved.set(i, j);
  return moved;
}

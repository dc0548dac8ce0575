// The table of names: shows those that hold every word of the filter. NAMES comes from names.js: [name, is it here, page or reason].
const input = document.getElementById("name-filter");
const table = document.getElementById("name-table");
const count = document.getElementById("name-count");
const MOST = 200;

function cell(row, text, address) {
  const made = row.insertCell();
  const code = document.createElement("code");
  code.className = "docutils literal notranslate";
  code.textContent = text;
  if (!address) return made.append(code);
  const link = document.createElement("a");
  link.href = address;
  link.append(code);
  made.append(link);
}

function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? NAMES.filter(([name]) => words.every((word) => name.toLowerCase().includes(word))) : [];
  found.sort((a, b) => a[0].length - b[0].length);
  const body = table.tBodies[0];
  body.replaceChildren();
  for (const [name, here, rest] of found.slice(0, MOST)) {
    const row = body.insertRow();
    cell(row, name, here ? rest : "");
    row.insertCell().textContent = here ? "yes" : `no: ${rest}`;
  }
  table.hidden = !found.length;
  const total = `${found.length} of ${NAMES.length} names`;
  count.textContent = words.length ? (found.length > MOST ? `${total}; the first ${MOST} are shown` : total) : `${NAMES.length} names`;
}

input.addEventListener("input", () => {
  history.replaceState(null, "", input.value ? `?name=${encodeURIComponent(input.value)}` : location.pathname);
  show();
});
input.value = new URLSearchParams(location.search).get("name") || "";
show();

(() => {
  const found = [];
  const visible = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && e.getClientRects().length > 0;
  const where = (e) => e.tagName.toLowerCase();
  const text = (e) => (e.textContent || "").trim();
  const name = (e) => e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map((i) => text(document.getElementById(i) || document.createElement("i"))).join(" ").trim() || text(e) || e.title;

  // Colours, over whatever lies behind.
  const parse = (c) => {
    const m = c.match(/[\d.]+/g).map(Number);
    return { r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1 };
  };
  const over = (a, b) => ({ r: a.r * a.a + b.r * (1 - a.a), g: a.g * a.a + b.g * (1 - a.a), b: a.b * a.a + b.b * (1 - a.a), a: 1 });
  const behind = (e) => {
    const layers = [];
    for (let n = e; n; n = n.parentElement) {
      const c = parse(getComputedStyle(n).backgroundColor);
      if (c.a > 0) layers.push(c);
      if (c.a === 1) break;
    }
    return layers.reverse().reduce((below, c) => over(c, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  for (const e of document.body.querySelectorAll("*")) {
    if (e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim()) || !visible(e)) continue;
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && s.fontWeight >= 700);
    const back = behind(e), c = contrast(over(parse(s.color), back), back);
    if (c < (large ? 3 : 4.5)) found.push(`contrast ${c.toFixed(2)} of <${where(e)} class="${e.className}"> ${text(e).slice(0, 40)}`);
  }

  // Names and labels.
  for (const e of document.querySelectorAll("button, a[href], summary, [role=region], dialog[open], section, nav, table[aria-label]")) {
    if (visible(e) && !name(e)) found.push(`${where(e)} has no name`);
  }
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (visible(e) && !(e.labels && e.labels.length) && !e.getAttribute("aria-label")) found.push(`${where(e)} has no label`);
  }
  for (const e of document.querySelectorAll("svg")) {
    if (visible(e) && e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))) found.push(`svg has no name: ${e.outerHTML.slice(0, 80)}`);
  }
  for (const e of document.querySelectorAll("th")) if (!e.scope) found.push(`th ${text(e)} has no scope`);

  // Structure.
  if (!document.documentElement.lang) found.push("no language");
  if (document.querySelectorAll("main").length !== 1) found.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  let before = 0;
  for (const h of document.querySelectorAll("main h1, main h2, main h3, main h4, main h5, body > h1, body > h4")) {
    const level = Number(h.tagName[1]);
    if (before && level > before + 1) found.push(`h${level} after h${before}: ${text(h)}`);
    before = level;
  }
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) found.push(`id ${e.id} twice`);
    ids.add(e.id);
  }
  for (const e of document.querySelectorAll("[aria-labelledby]")) {
    for (const id of e.getAttribute("aria-labelledby").split(" ")) if (!document.getElementById(id)) found.push(`no element ${id}`);
  }
  // Keyboard: what scrolls can be reached.
  for (const e of document.querySelectorAll("main *")) {
    const s = getComputedStyle(e);
    if (visible(e) && (s.overflowX === "auto" || s.overflowY === "auto") && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1) && e.tabIndex < 0 && !e.querySelector("a, button, [tabindex]"))
      found.push(`${where(e)} class="${e.className}" scrolls and has no focus`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`the page is wider than its window: ${document.documentElement.scrollWidth} of ${innerWidth}`);
  return found;
})()

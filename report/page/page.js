"use strict";
// The read-out of the regret figures and the refit of the linear axis. Everything else is CSS.
const all = (s, e = document) => [...e.querySelectorAll(s)];
const el = (tag, cls, text) => Object.assign(document.createElement(tag), {className: cls || "", textContent: text ?? ""});
const shown = p => document.getElementById("s" + p).checked;
const group = s => s.replace(/\B(?=(\d{3})+$)/g, ",");
const whole = v => (v < 0 ? "\u2212" : "") + group(Math.abs(v).toFixed(0));
const far = v => { const e = Math.floor(Math.log10(v)); return (v / 10 ** e).toFixed(1) + "·10^" + e; };

for (const env of all("article.env")) {
  const D = JSON.parse(env.querySelector(".data").textContent), T = D.t.at(-1);
  const fmt = v => Math.abs(v) >= 1e7 ? far(v) : Math.abs(v) >= 1000 ? whole(v) : v.toFixed(D.d).replace("-", "\u2212");
  for (const box of all("[data-plot]", env)) {
    const plot = box.querySelector(".plot"), log = box.dataset.plot == "log";
    const lo = +box.dataset.lo, first = Math.max(0, D.t.findIndex(t => t >= lo));
    const pos = t => log ? Math.log(t / lo) / Math.log(T / lo) : t / T;
    let tip, rule, at = D.t.length - 1;
    const off = () => { tip?.remove(); rule?.remove(); tip = rule = null; };
    const show = i => {
      at = Math.max(first, Math.min(D.t.length - 1, i));
      if (!tip) {
        tip = el("div", "tip"); rule = el("div", "rule");
        tip.setAttribute("role", "status");
        plot.append(rule, tip);
      }
      const W = plot.clientWidth, x = pos(D.t[at]) * W, q = env.querySelector(".band-q").checked;
      rule.style.left = x + "px";
      const rows = D.p.filter(p => shown(p.i)).sort((a, b) => b.m[at] - a.m[at]).map(p => {
        const r = el("div", "p" + p.i);
        r.append(el("i"), el("span", "", p.n), el("em", "", fmt(p.m[at])),
          el("small", "", q ? fmt(p.l[at]) + " – " + fmt(p.h[at]) : "± " + fmt(p.e[at])));
        return r;
      });
      tip.replaceChildren(el("b", "", "t = " + whole(D.t[at])), ...rows);
      const w = tip.offsetWidth, h = tip.offsetHeight, room = innerWidth - plot.getBoundingClientRect().left - 8;
      tip.style.left = Math.max(-36, Math.min(x > W / 2 ? x - w - 14 : x + 14, room - w)) + "px";
      tip.style.top = Math.max(0, Math.min(40, plot.clientHeight - h)) + "px";
    };
    const near = e => {
      const b = plot.getBoundingClientRect(), f = (e.clientX - b.left) / b.width;
      let i = first;
      D.t.forEach((t, k) => { if (k >= first && Math.abs(pos(t) - f) < Math.abs(pos(D.t[i]) - f)) i = k; });
      show(i);
    };
    box.addEventListener("pointermove", near);
    box.addEventListener("pointerdown", near);
    box.addEventListener("pointerleave", off);
    box.addEventListener("blur", off);
    box.addEventListener("keydown", e => {
      const step = {ArrowLeft: -1, ArrowRight: 1, Home: -1e6, End: 1e6}[e.key];
      if (step) { e.preventDefault(); show(tip ? at + step : step < -1 ? first : D.t.length - 1); }
      if (e.key == "Escape") off();
    });
  }

  // The scale belongs to the contenders among what is shown: mean within three times the best.
  const plot = env.querySelector("[data-plot=lin] .plot"), svg = plot.querySelector("svg"), grid = svg.querySelector(".grid");
  const ends = all(".end", plot), y0 = +env.querySelector("[data-top]").dataset.top;
  const refit = () => {
    const v = D.p.filter(p => shown(p.i));
    if (!v.length) return;
    const least = Math.min(...v.map(p => p.m.at(-1)));
    let want = 0;
    for (const p of v) if (p.m.at(-1) <= 3 * least) p.m.forEach((m, k) => { want = Math.max(want, m + p.e[k]); });
    if (!(want > 0)) return;
    const mag = 10 ** Math.floor(Math.log10(want / 4)), step = mag * [1, 2, 2.5, 5, 10].find(k => want / 4 <= k * mag * 1.0001);
    const n = Math.ceil(want / step - 1e-6), y = n * step;
    svg.setAttribute("viewBox", `0 ${1000 * (1 - y / y0)} 1000 ${1000 * y / y0}`);
    all(".ty", plot).forEach(e => e.remove());
    let d = "", dec = 0;
    while (dec < 9 && Math.abs(step * 10 ** dec - Math.round(step * 10 ** dec)) > 1e-6) dec++;
    for (let k = 0; k <= n; k++) {
      const t = el("span", "ty", dec ? (k * step).toFixed(dec) : whole(k * step));
      t.style.top = 100 - 100 * k / n + "%";
      plot.append(t);
      d += `M0 ${1000 - 1000 * k * step / y0}H1000`;
    }
    grid.setAttribute("d", d);
    const gap = 2000 / plot.clientHeight;
    const o = ends.filter(e => shown(e.dataset.p)).map(e => {
      const p = D.p.find(p => p.i == e.dataset.p), m = p.m.at(-1);
      e.querySelector("small")?.remove();
      if (m > y) e.append(" ", el("small", "", "↑ " + fmt(m)));
      return {e, y: Math.min(99, Math.max(1, 100 - 100 * m / y))};
    }).sort((a, b) => a.y - b.y);
    for (let k = 1; k < o.length; k++) o[k].y = Math.max(o[k].y, o[k - 1].y + gap);
    for (let k = o.length - 1; k >= 0; k--) o[k].y = Math.min(o[k].y, 99 - (o.length - 1 - k) * gap);
    o.forEach(({e, y}) => { e.style.top = y + "%"; });
  };
  all(".chip input").forEach(c => c.addEventListener("change", refit));
}

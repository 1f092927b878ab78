"use strict";
(async () => {
  const $ = id => document.getElementById(id);
  const status = text => { $("status").textContent = text; };
  const packed = $("program").textContent;
  if (packed === "") return;
  if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined") {
    status("This browser has no WebAssembly. Five pictures stand in for the game.");
    return;
  }
  status("Starting …");
  try {
    const text = atob(packed), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const go = new Go();
    const { instance } = await WebAssembly.instantiate(await new Response(stream).arrayBuffer(), go.importObject);
    go.run(instance);
  } catch (err) {
    status("WebAssembly is switched off here (" + err.message + "). Five pictures stand in for the game.");
    return;
  }

  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const form = $("form"), kinds = Object.fromEntries(troupe.kinds.map(k => [k.name, k]));
  let shown = null, playing = 0, last = 0, owed = 0, written = 0;

  const fail = text => {
    $("error").textContent = text;
    $("error").hidden = text === "";
    return text === "";
  };

  // show draws the round that the program stands in.
  const show = () => {
    const size = Math.max(260, Math.min(440, $("plane").parentElement.clientWidth));
    const width = Math.max(260, $("regret").clientWidth);
    shown = troupe.view(size, width, Math.round(Math.min(230, Math.max(170, width / 3))));
    $("plane").innerHTML = shown.plane;
    $("arms").innerHTML = shown.arms;
    $("regret").innerHTML = shown.regret;
    $("words").textContent = shown.words;
    $("round").textContent = shown.t;
    $("slider").max = shown.rounds;
    $("slider").value = shown.t;
    $("back").disabled = shown.t === 1;
    $("step").disabled = $("play").disabled = shown.t === shown.rounds;
    const star = $("star"), scale = size / 2 / shown.half;
    star.style.left = size / 2 + scale * shown.theta[0] + "px";
    star.style.top = size / 2 - scale * shown.theta[1] + "px";
    if (!playing) settle();
  };

  // settle writes what need not change in every frame of a play: the address, the spec, the names.
  const settle = () => {
    clearTimeout(written);
    written = setTimeout(() => history.replaceState(null, "", "#" + shown.link), 200);
    $("link").value = location.href.split("#")[0] + "#" + shown.link;
    $("spec").textContent = shown.spec;
    for (const b of $("scenes").children) {
      const start = $("scene-" + b.dataset.scene).querySelector(".mark").dataset.link;
      b.setAttribute("aria-pressed", String(setupOf(start) === setupOf(shown.link)));
    }
  };

  const setupOf = link => link.replace(/&t=.*/, "");

  const looks = () => {
    const box = $("looks");
    box.replaceChildren(box.firstElementChild);
    $("legend").replaceChildren();
    shown.names.forEach((name, i) => {
      const swatch = () => Object.assign(document.createElement("i"), { className: "swatch s" + (i + 1) });
      const label = document.createElement("label"), input = document.createElement("input"), key = document.createElement("span");
      Object.assign(input, { type: "radio", name: "look", value: i, checked: i === shown.look });
      input.addEventListener("change", () => {
        troupe.look(i);
        show();
        [...$("legend").children].forEach((k, j) => k.classList.toggle("look", j === i));
      });
      label.append(input, swatch(), name);
      box.append(label);
      key.append(swatch(), name);
      key.classList.toggle("look", i === shown.look);
      $("legend").append(key);
    });
  };

  // open goes to the state of a link. It returns whether there is such a state.
  const open = link => {
    stop();
    if (!fail(troupe.open(link))) return false;
    show();
    looks();
    fill();
    return true;
  };

  const to = round => { if (fail(troupe.to(round))) show(); };

  // fill puts the state into the form.
  const fill = () => {
    const q = new URLSearchParams(shown.link), e = form.elements;
    for (const name of ["arms", "sigma", "seed", "rounds"]) e[name].value = q.get(name);
    e.from.value = q.get("from") || 0;
    e.redraw.checked = q.has("redraw");
    e.clicks.checked = q.has("clicks");
    for (const name of ["theta", "later"]) {
      const [x, y] = (q.get(name) || "0,0").split(",");
      e[name + "0"].value = x;
      e[name + "1"].value = y;
    }
    for (let i = 0; i < 4; i++) {
      const [kind, ...rest] = (q.getAll("p")[i] || "").split(",");
      const said = Object.fromEntries(rest.map(r => r.split("=")));
      e["kind" + i].value = kind;
      for (const key of ["m", "lambda", "scale"]) e[key + i].value = said[key] || "";
      e["change" + i].checked = said.change === "restarts";
    }
    able();
  };

  // able switches off what a kind of policy does not have.
  const able = () => {
    const e = form.elements;
    for (let i = 0; i < 4; i++) {
      const k = kinds[e["kind" + i].value];
      for (const key of ["m", "scale", "change"]) e[key + i].disabled = !(k && k[key]);
      e["lambda" + i].disabled = !k;
    }
    e.sigma.disabled = e.clicks.checked;
    e.redraw.disabled = e.arms.value === "0";
    e.later0.disabled = e.later1.disabled = !(e.from.value > 0);
  };

  // linkOf writes the form as a link, with θ* at another point when one is given.
  const linkOf = point => {
    const e = form.elements, parts = [];
    const theta = [e.theta0.value, e.theta1.value], later = [e.later0.value, e.later1.value];
    if (point) (shown.later ? later : theta).splice(0, 2, ...point);
    parts.push("seed=" + e.seed.value, "theta=" + theta);
    if (e.from.value > 0) parts.push("from=" + e.from.value, "later=" + later);
    parts.push("arms=" + e.arms.value);
    if (e.redraw.checked && !e.redraw.disabled) parts.push("redraw=1");
    parts.push("sigma=" + e.sigma.value);
    if (e.clicks.checked) parts.push("clicks=1");
    parts.push("rounds=" + e.rounds.value);
    let policies = 0;
    for (let i = 0; i < 4; i++) {
      const kind = e["kind" + i].value;
      if (kind === "") continue;
      policies++;
      let p = "p=" + kind;
      for (const key of ["m", "lambda", "scale"])
        if (!e[key + i].disabled && e[key + i].value !== "") p += "," + key + "=" + e[key + i].value;
      if (!e["change" + i].disabled && e["change" + i].checked) p += ",change=restarts";
      parts.push(p);
    }
    parts.push("t=" + Math.max(1, Math.min(shown.t, e.rounds.value || 1)), "look=" + (Math.min(shown.look, policies - 1) + 1));
    return parts.join("&");
  };

  form.addEventListener("change", () => { able(); open(linkOf()); });
  form.addEventListener("submit", event => event.preventDefault());

  // Playing.
  const stop = () => {
    if (playing) cancelAnimationFrame(playing);
    playing = 0;
    $("play").textContent = calm.matches ? "Play 50 rounds" : "Play";
    $("words").setAttribute("aria-live", "polite");
  };
  const frame = now => {
    const speed = Number($("speed").value);
    let round = shown.t;
    if (speed > 0) {
      owed += (now - last) / 1000 * speed;
      round += Math.floor(owed);
      owed -= Math.floor(owed);
      if (round > shown.t) to(round);
    } else {
      const until = performance.now() + 12;
      do troupe.to(++round); while (performance.now() < until && round < shown.rounds);
      show();
    }
    last = now;
    if (shown.t >= shown.rounds || !$("error").hidden) return pause();
    playing = requestAnimationFrame(frame);
  };
  const pause = () => { stop(); settle(); };
  const play = () => {
    if (playing) return pause();
    if (shown.t >= shown.rounds) return;
    if (calm.matches) return to(shown.t + 50);
    $("play").textContent = "Pause";
    $("words").setAttribute("aria-live", "off");
    last = performance.now();
    owed = 1;
    playing = requestAnimationFrame(frame);
  };
  const go1 = by => { stop(); to(shown.t + by); };
  $("play").addEventListener("click", play);
  $("step").addEventListener("click", () => go1(1));
  $("back").addEventListener("click", () => go1(-1));
  $("slider").addEventListener("input", () => { stop(); to(Number($("slider").value)); });
  calm.addEventListener("change", stop);
  addEventListener("keydown", event => {
    if (event.target.closest("input,select,textarea,pre,#star") || event.ctrlKey || event.altKey || event.metaKey) return;
    const act = { ArrowRight: () => go1(1), ArrowLeft: () => go1(-1), Home: () => go1(-shown.t), End: () => go1(shown.rounds) }[event.key] ||
      (event.key === " " && !event.target.closest("button,summary") && play);
    if (!act) return;
    event.preventDefault();
    act();
  });

  // θ* that one drags.
  const star = $("star");
  let wanted = null;
  const move = (x, y) => {
    const r = Math.max(1, Math.hypot(x, y));
    const down = v => Math.trunc(v / r * 100) / 100; // towards 0, so that it stays in the disc
    const first = wanted === null;
    wanted = [down(x), down(y)];
    if (first) requestAnimationFrame(() => {
      const point = wanted;
      wanted = null;
      open(linkOf(point));
    });
  };
  star.addEventListener("pointerdown", event => { stop(); star.setPointerCapture(event.pointerId); });
  star.addEventListener("pointermove", event => {
    if (!star.hasPointerCapture(event.pointerId)) return;
    const box = $("plane").firstElementChild.getBoundingClientRect(), scale = box.width / 2 / shown.half;
    move((event.clientX - box.left - box.width / 2) / scale, (box.top + box.height / 2 - event.clientY) / scale);
  });
  star.addEventListener("keydown", event => {
    const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const step = event.shiftKey ? .01 : .05;
    move(Math.round((shown.theta[0] + step * by[0]) * 100) / 100 + 1e-9 * Math.sign(by[0]), Math.round((shown.theta[1] + step * by[1]) * 100) / 100 + 1e-9 * Math.sign(by[1]));
  });

  // Scenes and links. A scene is open with one of its marks, or none is.
  let marks = [], mark = 0;
  const point = (scene, i) => {
    for (const s of document.querySelectorAll(".scene")) s.hidden = s !== scene;
    marks = scene ? [...scene.querySelectorAll(".mark")] : [];
    mark = i;
    marks.forEach((m, j) => { m.hidden = j !== i; });
    $("guide").hidden = marks.length === 0;
    $("before").disabled = i === 0;
    $("next").disabled = i + 1 >= marks.length;
    $("place").textContent = i + 1 + " of " + marks.length;
  };
  const visit = (scene, i) => {
    point(scene, i);
    open(marks[i].dataset.link);
  };
  $("scenes").addEventListener("click", event => {
    const b = event.target.closest("button");
    if (b) visit($("scene-" + b.dataset.scene), Number(b.dataset.best));
  });
  $("before").addEventListener("click", () => visit(marks[mark].closest(".scene"), mark - 1));
  $("next").addEventListener("click", () => visit(marks[mark].closest(".scene"), mark + 1));
  const begin = () => {
    const link = decodeURIComponent(location.hash.slice(1)), first = $("scenes").firstElementChild;
    const ok = link !== "" && open(link);
    const said = $("error").textContent;
    if (!ok && !shown) open($("scene-" + first.dataset.scene).querySelectorAll(".mark")[first.dataset.best].dataset.link);
    if (link !== "" && !ok) fail("The link of this page was not read: " + said);
    const at = [...document.querySelectorAll(".mark")].find(m => m.dataset.link === shown.link);
    if (at) point(at.closest(".scene"), [...at.parentElement.children].indexOf(at));
    else point(null, 0);
  };
  addEventListener("hashchange", begin);
  let narrow = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== narrow) { narrow = innerWidth; show(); } });

  $("live").hidden = false;
  $("pictures").hidden = true;
  $("status").hidden = true;
  stop();
  begin();
})();

// The parts of a page that are marked with data-live follow the server: an event names a change, and the page is read again.
"use strict";
(() => {
	const url = document.currentScript.dataset.page;
	const source = new EventSource(url + "/live");
	let busy = false, again = false;
	const refresh = async () => {
		if (busy || document.hidden) {
			again = true;
			return;
		}
		busy = true;
		again = false;
		try {
			const answer = await fetch(url, {cache: "no-store"});
			if (answer.ok) {
				const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
				for (const part of document.querySelectorAll("[data-live]")) {
					const now = fresh.getElementById(part.id);
					if (now && now.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) {
						const open = [...part.querySelectorAll("details")].map(d => d.open);
						part.innerHTML = now.innerHTML;
						part.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
					}
				}
			}
		} catch (e) { // the server restarts: the next event tries again
		}
		setTimeout(() => {
			busy = false;
			if (again) refresh();
		}, 2000);
	};
	source.addEventListener("change", refresh);
	document.addEventListener("visibilitychange", () => { if (again) refresh(); });
})();

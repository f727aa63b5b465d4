// Starts the explorer in its frame, once the page has sent the data.

window.addEventListener("message", ({ origin, data }) => {
  if (origin !== location.origin || document.getElementById("explorer")) return;
  document.getElementById("data").textContent = JSON.stringify(data);
  const script = document.createElement("script");
  Object.assign(script, { id: "explorer", src: "explorer.js" });
  document.body.append(script);
});

/* Styles of the parts that the script adds to a drawing. */
const STYLE = `
.d2l-tl-live{position:relative}
.d2l-tl-head{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:2px 14px}
.d2l-tl-bar{display:flex;gap:4px;margin-left:auto}
.d2l-tl-bar button{font:14px/1 system-ui,sans-serif;min-width:28px;height:28px;padding:0 6px;
 color:inherit;background:none;border:1px solid;border-radius:4px;cursor:pointer;opacity:.85}
@media(pointer:coarse){.d2l-tl-bar button{min-width:44px;height:44px}}
.d2l-tl-bar button:hover{opacity:1;background:rgba(128,128,128,.2)}
.d2l-tl-bar button[aria-disabled=true]{opacity:.4;cursor:default}
.d2l-tl-live .d2l-tl-scroll{flex:1;overflow:hidden;touch-action:pan-y;cursor:default}
.d2l-tl-live.d2l-tl-zoomed .d2l-tl-scroll{cursor:grab}
.d2l-tl-live .d2l-tl-scroll:focus-visible,.d2l-tl-bar button:focus-visible
 {outline:2px solid var(--pst-color-link,#0072b2);outline-offset:1px}
.d2l-tl-live.d2l-tl-phone .d2l-tl-body>svg{display:none}
.d2l-tl-cursor{stroke:currentColor;stroke-dasharray:3 2;pointer-events:none}
.d2l-tl-now{font:600 11px system-ui,sans-serif;fill:currentColor;pointer-events:none}
.d2l-tl-mark{fill:none;stroke:currentColor;stroke-width:2.4;pointer-events:none}
.d2l-tl-tip{position:fixed;z-index:5;max-width:min(320px,100vw);padding:5px 9px;border-radius:5px;
 font:12px/1.45 system-ui,sans-serif;pointer-events:none;overflow-wrap:anywhere;box-sizing:border-box;
 color:var(--pst-color-text-base,CanvasText);background:var(--pst-color-surface,Canvas);
 border:1px solid var(--pst-color-border,GrayText);box-shadow:0 2px 8px rgba(0,0,0,.3)}
.d2l-tl-tip[hidden]{display:none}
.d2l-tl-tip b,.d2l-tl-tip span{display:block}
.d2l-tl-unseen{position:absolute;top:0;left:0;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0}
@media print{.d2l-tl-bar,.d2l-tl-tip{display:none}}`;

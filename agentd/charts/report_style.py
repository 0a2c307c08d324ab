"""The style sheet of reports: light and dark, on paper and on a phone."""

from __future__ import annotations

import base64
import hashlib

_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#B0528C", "#B27A00", "#2E8BC0", "#4D4D4D")
_DARK = ("#4FB0E8", "#FF8A3D", "#2BC79B", "#E79BC6", "#F0B429", "#8FD0F5", "#BDBDBD")
"""Seven hues as in pictures, each readable on its ground."""

_COLOURS = {
    "ground": ("#ffffff", "#14171c"),
    "card": ("#f6f7f9", "#1d2129"),
    "words": ("#22262d", "#e4e7ec"),
    "faint": ("#5c6470", "#a2abb8"),
    "rule": ("#dde1e7", "#343b46"),
    "accent": ("#0b5c92", "#7cc4f2"),
    "alarm": ("#a33131", "#ff9a8f"),
}


def _variables(column: int) -> str:
    hues = (_LIGHT, _DARK)[column]
    told = [f"--{name}:{pair[column]}" for name, pair in _COLOURS.items()]
    return ";".join([*told, *(f"--c{place}:{hue}" for place, hue in enumerate(hues))])


_CLASSES = "".join(f".c{place}{{--c:var(--c{place})}}" for place in range(len(_LIGHT)))

STYLE = f"""
:root{{color-scheme:light dark;{_variables(0)}}}
@media (prefers-color-scheme:dark){{:root{{{_variables(1)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1180px;padding:1.5rem 1.25rem 3rem;background:var(--ground);color:var(--words);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem}}
h2{{font-size:1.2rem;margin:2.25rem 0 .75rem;padding-bottom:.3rem;border-bottom:1px solid var(--rule)}}
h3{{font-size:1rem;margin:0}}
p{{margin:.4rem 0}}
a{{color:var(--accent)}}
.faint,.note{{color:var(--faint);font-size:.875rem}}
.alarm{{color:var(--alarm);font-weight:600}}
.figures{{display:grid;gap:.75rem;grid-template-columns:repeat(auto-fill,minmax(145px,1fr));margin:1.25rem 0;padding:0}}
.figures div{{background:var(--card);border:1px solid var(--rule);border-radius:.5rem;padding:.6rem .8rem}}
.figures dt{{color:var(--faint);font-size:.8rem}}
.figures dd{{margin:0;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums}}
.figures dd small{{display:block;font-size:.8rem;font-weight:400;color:var(--faint)}}
.charts{{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}}
figure{{margin:0;padding:.9rem 1rem;background:var(--card);border:1px solid var(--rule);border-radius:.5rem;
min-width:0}}
figure.first{{grid-column:1/-1}}
figure svg{{display:block;width:100%;height:auto;margin-top:.4rem}}
.narrow{{display:none!important}}
.legend{{list-style:none;margin:.5rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;font-size:.85rem}}
.legend li{{display:flex;gap:.45rem;align-items:baseline}}
.legend svg{{flex:none;width:24px;height:10px;margin:0}}
.legend b{{font-weight:600;font-variant-numeric:tabular-nums}}
.marks{{font-size:.875rem;margin:.5rem 0;padding-left:1.6rem}}
.marks li::marker{{color:var(--alarm)}}
.scroll{{overflow-x:auto;border:1px solid var(--rule);border-radius:.5rem}}
table{{overflow-wrap:normal;border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}}
th,td{{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--rule);vertical-align:top}}
tr:last-child td,tr:last-child th{{border-bottom:0}}
thead th{{background:var(--card);color:var(--faint);font-weight:600;white-space:nowrap}}
tbody th{{font-weight:500;white-space:nowrap}}
.numbers td{{white-space:nowrap}}
.pairs{{columns:2;column-gap:2rem;margin:0;font-size:.875rem}}
.pairs div{{display:flex;justify-content:space-between;gap:1rem;border-bottom:1px solid var(--rule);padding:.25rem 0;
break-inside:avoid}}
.pairs dt{{color:var(--faint);flex:none;max-width:50%}}
.pairs dd{{margin:0;text-align:right;min-width:0}}
details{{margin:.75rem 0}}
summary{{cursor:pointer;font-weight:600}}
:focus-visible{{outline:2px solid var(--accent);outline-offset:2px}}
footer{{margin-top:2.5rem;border-top:1px solid var(--rule);padding-top:.75rem}}
svg text{{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;fill:var(--faint)}}
svg .grid{{stroke:var(--rule)}}
svg .axis{{stroke:var(--faint);fill:none}}
svg .mark{{stroke:var(--alarm);stroke-dasharray:3 3;stroke-opacity:.75}}
svg .mark-words{{fill:var(--alarm);font-size:10px}}
svg .line{{stroke:var(--c);fill:none;stroke-width:2;stroke-linejoin:round}}
svg .bar{{fill:var(--c)}}
svg .weak{{fill-opacity:.3}}
{_CLASSES}
@media (max-width:640px){{body{{padding:1rem .75rem 2rem;font-size:15px}}figure{{padding:.7rem .6rem}}
.wide{{display:none!important}}.narrow{{display:block!important}}.pairs{{columns:1}}.legend{{display:block}}
.figures{{grid-template-columns:1fr 1fr}}.figures dd{{font-size:1.1rem}}}}
@media print{{:root{{{_variables(0)}}}body{{max-width:none;padding:0;font-size:10pt}}
figure,tr,.figures div{{break-inside:avoid}}h2{{break-after:avoid}}.scroll{{overflow:visible}}
details::details-content{{content-visibility:visible;display:block}}}}
@media print,(min-width:641px) and (max-width:1120px){{.charts{{grid-template-columns:1fr 1fr}}
figure:not(.first) .wide{{display:none!important}}figure:not(.first) .narrow{{display:block!important}}}}
"""


def style_hash() -> str:
    """What a content security policy knows the style sheet by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

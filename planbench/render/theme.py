"""How a drawing looks: the shape, the stroke and the colours of each state.

A state is told by its icon and the stroke of its card as well as by colour, and text
is dark on light or light on dark in every mode. All class names of ours start with
``pb-`` or ``pbn-``, since a style inside a drawing holds for the page around it too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FONTS: Final = '"Helvetica Neue",Helvetica,Arial,"Liberation Sans",system-ui,sans-serif'
LINE: Final = "#8590a0"
ICON_SCALE: Final = 0.72

_DISC: Final = "M8 0a8 8 0 1 1 0 16A8 8 0 1 1 8 0z"
_RING: Final = f"{_DISC}M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 1 0 8 1.8z"

ICONS: Final = {
    "idle": _RING,
    "valid": f"{_RING}M7.1 10.9 4.3 8.1l1.1-1.1 1.7 1.7 3.5-3.5 1.1 1.1z",
    "waiting": f"{_RING}M7.2 3.8h1.6v4l2.7 1.6-.8 1.4-3.5-2.1z",
    "running": "M8 0a8 8 0 1 1-8 8h2.4A5.6 5.6 0 1 0 8 2.4z",
    "ok": f"{_DISC}M7 11.5 3.4 7.9l1.4-1.4L7 8.7l4.3-4.3 1.4 1.4z",
    "partial": f"{_DISC}M8 2v12A6 6 0 1 0 8 2z",
    "error": f"{_DISC}M5.2 3.8 8 6.6l2.8-2.8 1.4 1.4L9.4 8l2.8 2.8-1.4 1.4L8 9.4l-2.8 2.8-1.4-1.4L6.6 8 3.8 5.2z",
    "blocked": f"{_DISC}M3.2 6.8h9.6v2.4H3.2z",
    "skipped": "M1 2.5 7 8l-6 5.5zM7.5 2.5l6 5.5-6 5.5zM13.6 2.5h1.9v11h-1.9z",
    "cancelled": f"{_DISC}M5 5h6v6H5z",
    "invalid": "M8 .6 15.8 14.9H.2zM7.1 5.6h1.8v4.6H7.1zM7.1 11.4h1.8v1.9H7.1z",
}


class State(NamedTuple):
    """The look of one state; ``dash`` is the stroke's pattern, empty for a full line."""

    hue: str
    light: str
    dark: str
    dash: str = ""
    width: float = 1.0


STATES: Final = {
    "idle": State("#8590a0", "#ffffff", "#1d232c"),
    "valid": State("#6f9a83", "#ffffff", "#1d232c"),
    "waiting": State("#8590a0", "#f7f8fa", "#1d232c", "3.5 2.5"),
    "running": State("#3a7bd5", "#edf4fe", "#1a2738", "", 1.6),
    "ok": State("#3c9465", "#f0f8f3", "#18271f"),
    "partial": State("#bb7f14", "#fdf6e7", "#2b2417", "7 2"),
    "error": State("#cf4444", "#fdf0ef", "#2f1c1d", "", 1.8),
    "blocked": State("#cf4444", "#fbf4f3", "#271d1f", "2 2.5"),
    "skipped": State("#79839a", "#f4f5f7", "#1b2027", "1 2.5"),
    "cancelled": State("#8a6fb0", "#f6f3fa", "#231f2d", "6 3 1.5 3"),
    "invalid": State("#cf4444", "#fdf0ef", "#2f1c1d", "8 2.5", 1.8),
}

_BASE: Final = f"""\
.pb-drawing{{max-width:100%;height:auto;font-family:{FONTS}}}
.pb-drawing text{{stroke:none}}
.pb-drawing .pbn-title{{font-size:10px;font-weight:600;fill:#1f2733}}
.pb-drawing .pbn-line{{font-size:8.4px;fill:#566072}}
.pb-drawing .pb-counter{{font-size:8.4px;fill:#364152;font-variant-numeric:tabular-nums}}
.pb-drawing .pbn-tag{{font-size:6.8px;font-weight:600;fill:#566072}}
.pbn-card,.pbn-back,.pbn-pill{{fill:#fff;stroke:{LINE}}}
.pbn-track{{fill:{LINE};fill-opacity:.22}}
.pbn-icon{{fill-rule:evenodd}}
.pbn-lines{{fill:none;stroke:{LINE};stroke-width:1.1}}
.pbn-heads{{fill:{LINE}}}
.pbn-guard{{stroke-dasharray:3.5 2.5}}
.pbn-inferred{{stroke-dasharray:.1 2.6;stroke-linecap:round}}
.pbn-inferred.pbn-guard{{stroke-dasharray:.1 4.8}}
.pb-selected .pbn-card{{stroke-width:2.4}}
.pb-running .pbn-icon{{animation:pbn-turn 1.6s linear infinite;transform-box:fill-box;transform-origin:center}}
@keyframes pbn-turn{{to{{rotate:360deg}}}}
@media (prefers-reduced-motion:reduce){{.pb-running .pbn-icon{{animation:none}}}}
"""

_DARK_INK: Final = """\
.pb-drawing .pbn-title{fill:#e9edf3}
.pb-drawing .pbn-line,.pb-drawing .pbn-tag{fill:#aab4c2}
.pb-drawing .pb-counter{fill:#c9d1dc}
.pbn-pill{fill:#1d232c}
"""

_HOST_INK: Final = """\
.pb-drawing .pbn-title{fill:var(--jp-ui-font-color1,#1f2733)}
.pb-drawing .pbn-line,.pb-drawing .pbn-tag,.pb-drawing .pb-counter{fill:var(--jp-ui-font-color2,#566072)}
.pbn-pill{fill:var(--jp-layout-color0,#fff)}
"""


def _rule(status: str, state: State, fill: str) -> str:
    stroke = f"stroke:{state.hue}"
    if state.width != 1:
        stroke += f";stroke-width:{state.width:g}"
    if state.dash:
        stroke += f";stroke-dasharray:{state.dash}"
    return (
        f".pb-{status} .pbn-back{{fill:{fill};stroke:{state.hue}}}\n"
        f".pb-{status} .pbn-card{{fill:{fill};{stroke}}}\n"
        f'.pb-{status} .pbn-icon{{fill:{state.hue};d:path("{ICONS[status]}")}}\n'
        f".pb-{status} .pb-bar{{fill:{state.hue}}}\n"
    )


def _fills(fills: dict[str, str]) -> str:
    return "".join(
        f".pb-{status} .pbn-card,.pb-{status} .pbn-back{{fill:{fill}}}\n"
        for status, fill in fills.items()
    )


_STATE_RULES: Final = "".join(_rule(status, state, state.light) for status, state in STATES.items())

#: The style inside each drawing: light, and dark where the reader's system is.
STYLE: Final = (
    f"{_BASE}{_STATE_RULES}@media (prefers-color-scheme:dark){{\n{_DARK_INK}"
    f"{_fills({status: state.dark for status, state in STATES.items()})}}}\n"
)

#: The style for a drawing inside a page of Jupyter: it follows the theme of the page.
HOST_STYLE: Final = (
    _BASE
    + _STATE_RULES
    + _HOST_INK
    + _fills(
        {
            status: f"color-mix(in srgb,{state.hue} 9%,var(--jp-layout-color0,#fff))"
            for status, state in STATES.items()
        }
    )
)


def state_name(status: str) -> str:
    """Give a status as the name of a known state; anything else is drawn as idle."""
    return status if status in STATES else "idle"

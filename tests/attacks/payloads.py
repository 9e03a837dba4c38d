"""Strings that try to become code in a page."""

from __future__ import annotations

RUN = "window.__hacked=1"
PAYLOADS = (
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><svg onload="{RUN}">',
    f'\'><a href="javascript:{RUN}" autofocus onfocus={RUN}>x</a>',
    f"javascript:{RUN}",
    f"{{{{ 7 * 7 }}}} ${{{RUN}}} {{% raw %}}",
    f"\u2028{RUN}//\u2029",
    "\u202eabc\u2066 \u200f",
    "</style><style>*{display:none}",
    "x;background:url(http://evil.invalid/x)",
    "http://evil.invalid/x.png",
    f"'];{RUN};//",
    f"datum['{RUN}'] constructor __proto__",
    f"</title></textarea></template><iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<!--<script>{RUN}",
    "a\\b\\u003c]]>&lt;script&gt;",
)
ALL = " ".join(PAYLOADS)

"""Results in notebooks. What a guest gives must not act there."""

from __future__ import annotations

from helpers import Make

from belljar import CellValue, SandboxResult, Status

ATTACK = "<script>alert(1)</script>"


def shown(**fields: object) -> SandboxResult:
    return SandboxResult.model_validate({"success": True, "status": "ok", **fields})


def test_output_and_value_are_shown(make: Make) -> None:
    sandbox = make()
    result = sandbox.execute("print('printed')\nopen('made.txt', 'w').close()\n6 * 7")
    html = result._repr_html_()
    for text in ("printed", "42", "+ made.txt", "ok, "):
        assert text in html
    bundle = result._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": "printed\n42", "text/html": html}
    assert result.text == "printed\n42"
    failed = sandbox.execute("1 / 0")
    assert "ZeroDivisionError" in failed._repr_html_() and "ZeroDivisionError" in failed.text
    assert sandbox.execute("x = 1").text == "(no output)"


def test_text_of_the_guest_is_escaped() -> None:
    result = shown(stdout=ATTACK, stderr=ATTACK, files_created=[ATTACK], result={"text": ATTACK})
    assert "<script" not in result._repr_html_()
    assert result._repr_html_().count("&lt;script&gt;") == 4


def test_html_of_the_guest_is_in_a_frame_that_may_do_nothing() -> None:
    html = shown(result={"text": "x", "mime": {"text/html": f'"{ATTACK}'}})._repr_html_()
    assert '<iframe sandbox="" srcdoc="&quot;&lt;script&gt;' in html
    assert "<script" not in html


def test_pictures_of_the_guest_are_pictures() -> None:
    png = shown(result={"text": "p", "mime": {"image/png": 'AAAA"><script>'}})._repr_html_()
    assert '<img alt="p" src="data:image/png;base64,AAAA&quot;&gt;&lt;script&gt;">' in png
    svg = shown(result={"text": "s", "mime": {"image/svg+xml": f"<svg>{ATTACK}"}})._repr_html_()
    assert '<img alt="s" src="data:image/svg+xml,%3Csvg%3E%3Cscript%3E' in svg
    assert "<script" not in png + svg


def test_rich_values_of_guests_arrive(make: Make) -> None:
    code = "class Rich:\n    def _repr_html_(self): return '<b>bold</b>'\nRich()"
    result = make().execute(code)
    assert isinstance(result.result, CellValue)
    assert result.result.mime == {"text/html": "<b>bold</b>"}


def test_what_stopped_the_code_is_shown() -> None:
    stopped = SandboxResult(success=False, status=Status.CANCELLED)
    assert stopped.text == "(cancelled)"

"""Codes of languages, such as "en", "pt-BR" and "zh_Hans"."""


def without_region(code: str) -> str:
    """Returns the language of a code, without region and script: "pt" of "pt-BR" and "PT_br"."""
    return code.replace("_", "-").partition("-")[0].lower()

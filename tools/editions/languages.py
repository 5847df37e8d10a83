"""The languages of the book."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """A language that the book is written in.

    Attributes
    ----------
    code : str
        The name of its folder: ``editions/ko``.
    name : str
        What its readers call it.
    sphinx : str
        Its name for Sphinx, which translates the words of the theme.
    hreflang : str
        Its name for search engines, and in ``lang`` of pages.
    """

    code: str
    name: str
    sphinx: str
    hreflang: str


BUILT = "BOOK_EDITIONS"  # the variable that names the languages that are built: "tr,ko,zh"
ENGLISH = Language("en", "English", "en", "en")
LANGUAGES = {
    language.code: language
    for language in (
        Language("tr", "Türkçe", "tr", "tr"),
        Language("ko", "한국어", "ko", "ko"),
        Language("zh", "简体中文", "zh_CN", "zh-Hans"),
    )
}

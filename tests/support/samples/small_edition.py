"""A book of three small pages in each language, built as an edition is."""
# ruff: noqa: RUF001

import json
import os
import shutil
import subprocess
import sys

from support.paths import ROOT

from tools.editions.languages import ENGLISH, LANGUAGES

EVERY = {"en": ENGLISH, **LANGUAGES}
BASE = "https://example.org/book/"
TOC = """\
format: jb-book
root: intro
chapters:
  - file: chapters/one
  - file: chapters/two
  - file: glossary
"""
CONF = """\
from pathlib import Path
language = {language!r}
extensions = ["myst_nb", "sphinx_external_toc", "sphinxcontrib.bibtex", "sphinx_design",
              "sphinx_book_theme", "tools.pages.terms"]
if {with_extension}:
    extensions += ["tools.editions.site"]
if {is_edition}:
    myst_heading_slug_func = "tools.editions.site.slug"
external_toc_path = "_toc.yml"
bibtex_bibfiles = ["references.bib"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_block"]
myst_heading_anchors = 3
html_baseurl = {base!r}
html_theme = "sphinx_book_theme"
html_static_path = ["assets"]
html_js_files = [path.name for path in Path("assets").glob("words.js")]
html_search_scorer = "tools/pages/scorer.js"
exclude_patterns = ["tools", "assets"]


def setup(app):
    def add(app, page, *_):
        if page == "search":
            app.add_js_file("search.js", loading_method="defer")

    app.connect("html-page-context", add)
"""
HEADINGS = {
    "en": ("The first chapter", "Three ways to split", "Exactly $k$ `GPUs`: 2 *tests*", "Exercises",
           "The second chapter", "Words"),
    "tr": ("Birinci bölüm", "Bölmenin üç yolu", "Tam $k$ `GPU`: 2 *deneme*", "Alıştırmalar",
           "İkinci bölüm", "Sözlük"),
    "ko": ("첫째 장", "나누는 세 가지 방법", "정확히 $k$개의 `GPU`: 2 *시험*", "연습 문제",
           "둘째 장", "용어"),
    "zh": ("第一章", "三种切分方式", "正好$k$块`GPU`：2 *测试*", "练习", "第二章", "术语"),
}  # fmt: skip
TEXTS = {  # an emphasised word, a paragraph of each chapter, names of three terms
    "en": (
        "often",
        "Each GPU sums its gradients; a bucket is sent at once.",
        "The timeline shows every stream of the clock.",
        ("bucket", "data parallelism", "stage"),
    ),
    "tr": (
        "sık sık",
        "Her GPU gradyanlarını toplar; küçük bir kovayı hemen gönderir. "
        "Işığı InfiniBand taşır. İletişim sürer.",
        "Zaman çizelgesi saatin her akışını gösterir. Çekirdeği başlatır.",
        ("kova", "veri paralelliği", "aşama"),
    ),
    "ko": (
        "자주",
        "각 GPU는 기울기를 더합니다. 버킷을 곧바로 보냅니다. 미니배치는 데이터 병렬화의 몫입니다.",
        "타임라인은 시계의 모든 스트림을 보여 줍니다. 커널이 이득입니다.",
        ("버킷", "데이터 병렬화", "단계"),
    ),
    "zh": (
        "经常",
        "每块GPU把梯度相加，桶立即发送。小批量按数据并行切分。",
        "时间线显示时钟的每个流。内核的收益更大。",
        ("桶", "数据并行", "阶段"),
    ),
}


def pages(language):
    """Return the texts of the pages in a language, and the English headings by the others."""
    one, split, exactly, exercises, two, words = HEADINGS[language]
    often, first, second, names = TEXTS[language]
    places = "three-ways-to-split", "exactly--gpus-2-tests"
    english = ("",) * 3 if language == "en" else TEXTS["en"][3]
    entries = "\n\n".join(
        "\n".join(filter(None, [*pair, f"  {definition}"]))
        for *pair, definition in zip(names, english, "ABC", strict=True)
    )
    return {
        "intro": f"# {words}: 1\n\n[](chapters/one.md#{places[0]}) *{often}*, *Linux*\n",
        "chapters/one": f"# {one}\n\n*3 minutes to read.*\n\n{first} [](#{places[1]}), "
        f"[](two.md#exercises-1).\n\n## {split}\n\n"
        "{.untranslated .language-en}\nStill English.\n\n"
        f"### {exactly}\n\n#### {exactly}\n\n## {exercises}\n\nGPU\n",
        "chapters/two": f"# {two}\n\n{second}\n\n## {exercises}\n\n## {exercises}\n\nText.\n",
        "glossary": f"# {words}\n\n```{{glossary}}\n{entries}\n```\n",
    }, dict(zip(HEADINGS[language], HEADINGS["en"], strict=True)) | {
        f"{words}: 1": f"{HEADINGS['en'][-1]}: 1"
    }


def write(root, language, counts, base="", with_extension=True):
    """Write a copy of the repository that has but these pages and its tools; return its folder."""
    shutil.copytree(ROOT / "tools", root / "tools", dirs_exist_ok=True)
    shutil.copytree(ROOT / "assets", root / "assets")
    (root / "chapters").mkdir()
    texts, headings = pages(language)
    for name, text in texts.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    (root / "_toc.yml").write_text(TOC)
    (root / "references.bib").write_text("")
    is_edition = language != "en"
    if is_edition:
        known = {"language": language, "draft": language != "zh", "pages": counts}
        for name, data in (("slugs", headings), ("edition", known)):
            text = json.dumps(data, ensure_ascii=False)
            (root / f"{name}.json").write_text(text, encoding="utf-8")
    conf = CONF.format(
        language=EVERY[language].sphinx, base=base, is_edition=is_edition,
        with_extension=with_extension,
    )  # fmt: skip
    (root / "conf.py").write_text(conf, encoding="utf-8")
    return root


def build(root, target, editions=""):
    """Build it into a folder, without a warning; return that folder."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "-d", f"{root}-trees"]
    environment = os.environ | {"PYTHONPATH": str(root), "BOOK_EDITIONS": editions}
    done = subprocess.run(
        [*command, str(root), str(target)],
        capture_output=True, text=True, check=False, cwd=root, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return target

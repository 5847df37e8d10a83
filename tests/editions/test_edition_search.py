"""The search of editions: queries are cut as the index is, and words are found as people type."""
# ruff: noqa: RUF001, E501 -- tables of words

import json
import re
import shutil
import subprocess

import pytest
from support.samples.small_edition import EVERY

from tools.chromium.visits import new_visitor, served
from tools.editions import search

ONE, TWO, WORDS = "chapters/one", "chapters/two", "glossary"
ASKED = {  # the page on which each stands
    "tr": {
        "gradyan": ONE, "gradyanları": ONE, "kova": ONE, "KÜÇÜK": ONE, "ışık": ONE, "Işık": ONE,
        "IŞIĞI": ONE, "infiniband": ONE, "InfiniBand": ONE, "iletişim": ONE, "İletişim": ONE,
        "ikinci": TWO, "İkinci bölüm": TWO, "çekirdek": TWO, "zaman çizelgesi": TWO,
        "veri paralelliği": WORDS, "bucket": WORDS,
    },
    "ko": {
        "기울기": ONE, "기울기를": ONE, "미니배치": ONE, "버킷": ONE, "GPU": ONE, "시계": TWO, "이득": TWO,
        "타임라인": TWO, "스트림": TWO, "둘째": TWO, "데이터 병렬화": ONE, "병렬": ONE, "bucket": WORDS,
    },
    "zh": {
        "梯度": ONE, "桶": ONE, "小批量": ONE, "数据并行": ONE, "每块GPU": ONE, "切分": ONE, "时钟": TWO,
        "流": TWO, "时间线": TWO, "收益": TWO, "内核": TWO, "stage": WORDS,
    },
}  # fmt: skip
MISSED = {
    "tr": ["kovboy", "çekiç"],
    "ko": ["터이", "계시", "기계"],
    "zh": ["度梯", "批小", "数据线"],
}
SAMPLES = {
    "tr": ["İkinci IŞIK ışık InfiniBand", "NCCL'ye, ÇEKİRDEĞİ", "a_b 2x 0,5 — €", "", "gradyanları"],
    "ko": ["데이터 병렬화의 몫", "GPU당 2배, 가", "PyTorch의 backward()", "각 A100은 ㄱ漢字", "all-reduce 올리듀스"],
    "zh": ["每块GPU把梯度相加。", "桶", "数据、数据并行", "A100上的2×2（表）", "前向传播forward_pass"],
}  # fmt: skip
PAGE = r"""
const fs = require("fs"), vm = require("vm");
const [folder, language, script, ...queries] = process.argv.slice(2);
const page = fs.readFileSync(folder + "/search.html", "utf8");
function answer(query) {
  const context = vm.createContext({
    window: { location: {} }, say: (english, values) => context.window.say(english, values), URLSearchParams, query,
    location: { search: "?q=" + encodeURIComponent(query), protocol: "http:" },
    document: { addEventListener() {}, documentElement: { lang: language, dataset: {} },
                getElementById: () => ({ addEventListener() {}, childNodes: [] }) },
    SPHINX_HIGHLIGHT_ENABLED: false, DOCUMENTATION_OPTIONS: {}, Documentation: {},
    localStorage: { setItem() {}, removeItem() {} }, _ready() {}, _: (text) => text,
    say: (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]) });
  vm.runInContext(/window\.BOOK_TERMS = .*?;(?=<\/script>)/.exec(page)[0], context);
  for (const name of ["_static/searchtools", "_static/language_data", "searchindex", "_static/words",
                      "_static/search"])
    vm.runInContext(fs.readFileSync(`${folder}/${name}.js`, "utf8"), context, { filename: name });
  return vm.runInContext(script, context);
}
console.log(JSON.stringify(queries.map(answer)));
"""
FIND = """
const asked = Search._parseQuery(query);
const cards = Search._performSearch(...asked).reverse().map(([page, title]) => [page, title]);
({ found: cards, marked: [...asked[3]] });
"""
SPLIT = "splitQuery(query)"
STEM = "const s = new Stemmer(); splitQuery(query).map((word) => s.stemWord(word.toLowerCase()))"


def in_node(folder, code, script, queries):
    """Run a script on the page that searches, once for each query; return what it says."""
    if not shutil.which("node"):
        pytest.skip("no node; a browser runs the same scripts in `make test-all`")
    language = EVERY[code].sphinx.replace("_", "-")
    done = subprocess.run(
        ["node", "-", str(folder), language, script, *queries],
        input=PAGE, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cut(code, text):
    """Return the pieces of a query as the index has them."""
    if code == "tr":
        return re.findall(r"\w+", text.replace("İ", "i"))
    return search.pieces(text)


@pytest.mark.process
@pytest.mark.parametrize("code", SAMPLES)
def test_a_query_is_cut_as_the_index_is(website, code):
    language = {"ko": search.Korean, "zh": search.Chinese, "tr": search.Turkish}[code]({})
    pieces, stems = (in_node(website / code, code, each, SAMPLES[code]) for each in (SPLIT, STEM))
    for i, text in enumerate(SAMPLES[code]):
        assert pieces[i] == cut(code, text)
        assert stems[i] == [language.stem(piece) for piece in pieces[i]]
        assert set(stems[i]) <= {language.stem(piece) for piece in language.split(text)}


def test_pieces():
    assert search.pieces("每块GPU把梯度相加") == ["每块", "GPU", "把梯", "梯度", "度相", "相加"]
    assert search.pieces("桶") == ["桶"]
    assert "桶" in search.Chinese({}).split("每个桶"), "a word of one letter is found"


@pytest.mark.parametrize(
    "forms",
    [
        "kova Kovalar kovayı kovanın kovalarımızda", "ışık Işık IŞIĞI ışığın", "ikinci İkinci İKİNCİ",
        "çekirdek çekirdeğin ÇEKİRDEKTEN", "gradyan gradyanları Gradyanlarını", "InfiniBand infiniband",
        "bölüm bölümde", "aşama aşamayı", "makine makinesi makinelerin", "bellek belleği", "bant bandı",
        "rank rankın", "NCCL nccl",
    ],
)  # fmt: skip
def test_forms_of_a_turkish_word_have_one_stem(forms):
    stems = {search.Turkish({}).stem(form) for form in forms.split()}
    assert len(stems) == 1
    assert len(min(stems)) >= 3


def test_other_turkish_words_have_other_stems():
    words = (
        "kova kovboy ışık ikinci çekirdek çekirge gradyan bölüm bellek akış akışkan parça parçacık"
    )
    stems = [search.Turkish({}).stem(word) for word in words.split()]
    assert len(set(stems)) == len(stems)


@pytest.mark.process
@pytest.mark.parametrize("code", ASKED)
def test_a_word_finds_its_page(website, code):
    answers = in_node(website / code, code, FIND, ASKED[code])
    found = {
        word: {page for page, _ in answer["found"]}
        for word, answer in zip(ASKED[code], answers, strict=True)
    }
    assert [word for word, page in ASKED[code].items() if page not in found[word]] == []
    of_two = [word for word, page in ASKED[code].items() if page == TWO]
    assert [word for word in of_two if ONE in found[word]] == []


@pytest.mark.process
@pytest.mark.parametrize("code", MISSED)
def test_what_does_not_stand_there_is_not_found(website, code):
    answers = in_node(website / code, code, FIND, MISSED[code])
    assert [answer["found"] for answer in answers] == [[]] * len(MISSED[code])


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "query", "marked", "card"),
    [
        ("ko", "데이터 병렬화", ["데이터", "병렬화"], "Glossary: 데이터 병렬화"),
        ("zh", "数据并行", ["数据并行"], "Glossary: 数据并行"),
        ("tr", "Veri Paralelliği", ["veri", "paralelliği"], "Glossary: veri paralelliği"),
        ("tr", "Kova", ["kova"], "Glossary: kova"),
        ("zh", "bucket", ["bucket"], "Glossary: bucket"),
    ],
)
def test_words_are_marked_whole_and_the_glossary_has_a_card(website, code, query, marked, card):
    (result,) = in_node(website / code, code, FIND, [query])
    assert sorted(result["marked"]) == sorted(marked)
    assert [title for page, title in result["found"] if page == WORDS] == [card]


SCORED = """
["overlap-and-scaling", "devices"].map(
  (name) => Scorer.score(["chapters/" + name, "", "", "", 1]));
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "words"), [("ko", ["버킷", "bucket"]), ("zh", ["桶"]), ("tr", ["kova", "Kova"])]
)
def test_the_page_that_teaches_a_term_comes_first_by_any_of_its_names(website, code, words):
    answers = in_node(website / code, code, SCORED, [*words, "x"])
    assert answers == [*[[41, 1]] * len(words), [1, 1]]


CARDS = """[...document.querySelectorAll('ul.search > li')].map(card => ({
  link: card.querySelector('a').getAttribute('href'), text: card.innerText,
  marked: [...card.querySelectorAll('.highlighted')].map(e => e.textContent)}))"""


@pytest.mark.parametrize(
    ("code", "query", "said"),
    [("ko", "미니배치", "미니배치는"), ("zh", "数据并行", "小批量按数据并行"), ("tr", "Çekirdek", "Çekirdeği"),
     ("tr", "ışık", "Işığı")],
)  # fmt: skip
def test_a_browser_quotes_what_was_searched_for(website, tab, code, query, said):
    page = ASKED[code].get(query, TWO)
    visitor = new_visitor(tab)
    with served(website / code) as address:
        visitor.visit(f"{address}/search.html?q={query}")
        visitor.wait(f"{CARDS}.some(card => card.text.includes({said!r}))")
        (card,) = [card for card in visitor.ask(CARDS) if card["link"].startswith(page)]
        assert cut(code, SAMPLES[code][0]) == visitor.ask(f"splitQuery({SAMPLES[code][0]!r})")
    assert said in card["text"]
    if code != "tr":
        assert set(card["marked"]) == {query}

"""Rules for translated blocks: each finds its defect, and leaves a right block alone."""

# ruff: noqa: RUF001

import csv
import re
from collections import Counter

import pytest
from support.paths import ROOT

from tools.editions.rules import avoided, block, first_uses, problems, read_terms, suffixes, terms

TERMS = {language: read_terms(language) for language in ("tr", "ko", "zh")}

PARAGRAPH = """\
**Data parallelism** cuts the minibatch. Two A100s take {glue:text}`two_epoch` seconds
({numref}`fig-one`), 0.108 s more than `to` takes for 12,288 examples, at 80 % of the
[peak](devices.ipynb#peak). Why?"""
RIGHT = {
    "tr": """\
**Veri paralelliği** (data parallelism) minigrubu böler. İki A100
{glue:text}`two_epoch` saniye sürer ({numref}`fig-one`); bu, [tepe değerin](devices.ipynb#peak)
%80'inde 12.288 örnek için `to`'nun aldığından 0,108 s fazladır. Neden?""",
    "ko": """\
**데이터 병렬화**(data parallelism)는 미니배치를 나눕니다. A100 2개는
{glue:text}`two_epoch`초 걸립니다({numref}`fig-one`). 이는 [최대 성능](devices.ipynb#peak)의 80%에서
예제 12,288개에 `to`가 쓰는 시간보다 0.108초 깁니다. 왜일까요?""",
    "zh": """\
**数据并行**（data parallelism）切分小批量。两块A100需要\
{glue:text}`two_epoch`秒（{numref}`fig-one`），\
比`to`在[峰值](devices.ipynb#peak)的80%下处理12,288个样本多0.108秒。为什么？""",
}


def reports(language, english, translated):
    return [str(problem) for problem in problems(language, english, translated, TERMS[language])]


@pytest.mark.parametrize("language", RIGHT)
def test_a_right_paragraph_passes(language):
    assert reports(language, PARAGRAPH, RIGHT[language]) == []


SEEDED = [  # for all languages: what to replace, by what, what is said
    ("two_epoch", "one_epoch", "error: markup: missing role {glue:text}`two_epoch`"),
    ("fig-one", "fig-two", "error: markup: missing role {numref}`fig-one`"),
    ("`to`", "`on`", "error: markup: missing code `to`"),
    ("devices.ipynb#peak", "devices.ipynb", "error: markup: missing link (devices.ipynb#peak)"),
    ("80", "90", "error: numbers: missing 80"),
    ("288", "299", "error: numbers: missing 12,288"),
    ("108", "018", "error: numbers: missing 0.108"),
    ("A100", "H100", "warning: name: missing A100"),
    ("**", "", "error: bold: 0 bold texts in place of 1"),
]


@pytest.mark.parametrize("language", RIGHT)
@pytest.mark.parametrize(("old", "new", "said"), SEEDED)
def test_a_seeded_defect_is_found(language, old, new, said):
    assert old in RIGHT[language]
    assert said in reports(language, PARAGRAPH, RIGHT[language].replace(old, new))


OTHER_WORDS = [
    ("tr", "minigrubu", "mini toplu grubu", "minibatch is minigrup"),
    ("ko", "미니배치를", "소배치를", "minibatch is 미니배치"),
    ("zh", "小批量", "迷你批次", "minibatch is 小批量"),
    ("tr", "Veri paralelliği", "Veri koşutluğu", "Data parallelism is veri paralelliği"),
    ("ko", "데이터 병렬화", "자료 동시화", "Data parallelism is 데이터 병렬화"),
    ("zh", "数据并行", "数据平行", "Data parallelism is 数据并行"),
]


@pytest.mark.parametrize(("language", "old", "new", "said"), OTHER_WORDS)
def test_another_word_for_a_term_is_found(language, old, new, said):
    assert old in RIGHT[language]
    found = reports(language, PARAGRAPH, RIGHT[language].replace(old, new))
    assert found == [f"warning: term: {said}"]


AVOIDED = [
    ("One job runs.", "一个作业在运行。", "一个任务在运行。", "作业, say 任务"),
    ("It fits into memory.", "内存放得下。", "显存放得下。", "内存, say 显存"),
    ("It is in host memory.", "它在显存或内存里。", "它在主机内存里。", None),
    ("The host launches it.", "主机启动之后继续。", "主机提交之后继续。", "启动, say 提交"),
    ("torchrun launches two.", "torchrun提交两个。", "torchrun启动两个进程。", None),
    ("Two examples.", "两个样例。", "两个样本。", "样例, say 样本"),
]


@pytest.mark.parametrize(("english", "wrong", "right", "said"), AVOIDED)
def test_a_word_that_misleads_is_found_where_it_does(english, wrong, right, said):
    found = [text for text in reports("zh", english, wrong) if "avoided" in text]
    assert found == ([f"error: avoided: {said}"] if said else [])
    assert not any("avoided" in text for text in reports("zh", english, right))


LEFT_OVER = [
    ("tr", "The host waits for each of the GPUs.", "Ana makine waits for each of the GPUs."),
    ("tr", "Most messages are hidden.", "Ana most messages gizlenir."),
    ("ko", "The host waits for each of the GPUs.", "호스트는 waits for each of GPU 합니다."),
    ("ko", "Most messages are hidden.", "most messages가 숨는다."),
    ("zh", "It waits for all.", "它for等待。"),
    ("zh", "The host waits for each of the GPUs.", "主机waits for each of the GPUs。"),
]


@pytest.mark.parametrize(("language", "english", "translated"), LEFT_OVER)
def test_english_that_was_left_is_found(language, english, translated):
    assert any("warning: English:" in text for text in reports(language, english, translated))


TYPOGRAPHY = [
    ("tr", "In {numref}`fig-a`.", "{numref}`fig-a`'da.", "a suffix at a role"),
    ("tr", "Of {glue:text}`x`.", "{glue:text}`x`'in.", "a suffix at a glued number"),
    ("tr", "Of {glue:text}`x`.", "{glue:text}`x`lik.", "a suffix at a glued number"),
    ("tr", "Fewer than {n}", "{n}'den az", "a suffix at a role"),
    ("tr", "80 % of it.", "80%'i.", "% goes in front"),
    ("tr", "Yes: it does.", "Evet：öyle.", "full width"),
    ("zh", "80 % of it.", "它的80 %。", "space"),
    ("zh", "A GPU computes.", "GPU 。", "space"),
    ("zh", "A GPU computes.", "ＧＰＵ计算。", "full width"),
    ("zh", "And so on...", "等等...", "…… for an ellipsis"),
    ("tr", "On a GPU.", "Bir GPUda.", "an apostrophe is missing"),
    (
        "ko",
        "It takes {glue:text}`x` s.",
        "{glue:text}`x`은 걸립니다.",
        "a particle after a consonant",
    ),
    ("ko", "Fewer than {n}", "{n}이 모자랍니다", "a particle after a consonant"),
    ("ko", "Yes.", "네。", "full width"),
    ("ko", "The GPU computes.", "GPU 는 계산합니다.", "space before a particle"),
    ("zh", "Yes, it does.", "是的,可以。", "half width"),
    ("zh", "It (the sum) is right.", "它(总和)是对的。", "half width"),
    ("zh", "A GPU computes.", "一块 GPU计算。", "space"),
    ("zh", "It takes $k$ steps.", "需要 $k$步。", "space"),
    ("zh", "One is right. Two are not.", "一个对。 两个不对。", "space"),
    ("zh", 'It is "right".', '它是"对"的。', "straight quotation mark"),
    ("zh", "Try it.", "请试一试。", "the reader is 你"),
    ("zh", "It is slow and it is right.", "它很慢，\n但是对的。", "one line a paragraph"),
    ("zh", "**Wait.** It is full.", "**等待。** 它满了。", "punctuation goes behind bold"),
]


@pytest.mark.parametrize(("language", "english", "translated", "said"), TYPOGRAPHY)
def test_a_slip_of_typography_is_found(language, english, translated, said):
    found = [text for text in reports(language, english, translated) if "typography" in text]
    assert any(text.startswith(f"error: typography: {said}") for text in found)


AVOIDED_IN_KOREAN = [  # what a reader stumbles over, and what is right
    ("랭크마다 제 토큰이 있다.", "랭크마다 자기 토큰이 있다."),
    ("시뮬레이션한 GPU에서 실행합니다.", "GPU를 시뮬레이션한 것입니다."),
    ("커널의 실행을 요청합니다.", "커널을 론치합니다."),
    ("큰 곱은 빠릅니다.", "큰 행렬 곱셈은 빠르고, 두 크기의 곱은 같습니다."),
    ("많은 독자를 위해.", "GPU가 더 많다면."),
    ("식 {eq}`eq-a`가 그렇습니다.", "식 {eq}`eq-a`의 값이 그렇습니다."),
    ("$$\na\n$$\n의 비율이 쉽니다.", "$$\na\n$$\n이 비율은 작습니다."),
    ("올게더와 `a`.", "[올개더](올게더.md)와 `올게더`."),
]


@pytest.mark.parametrize(("wrong", "right"), AVOIDED_IN_KOREAN)
def test_what_jars_in_korean_is_found(wrong, right):
    said = re.compile("error: (?:avoided|typography: a particle at a formula)")
    assert sum(bool(said.match(text)) for text in reports("ko", "It is.", wrong)) == 1
    assert not any(said.match(text) for text in reports("ko", "It is.", right))


SHOWN_ASTERISKS = [
    ("zh", "It reached **{glue:text}`x` TFLOP/s** then.", "达到了**{glue:text}`x` TFLOP/s**。"),
    ("zh", "Here **(a)** is right.", "这里**(a)**是对的。"),
    ("ko", "**Data (here)** is right.", "**데이터(여기)**는 맞습니다."),
    ("ko", "Marked *(simulated)* here.", "여기서 *(simulated)*로 표시합니다."),
]


@pytest.mark.parametrize(("language", "english", "translated"), SHOWN_ASTERISKS)
def test_asterisks_that_a_page_would_show_are_found(language, english, translated):
    found = reports(language, english, translated)
    assert any(text.startswith("error: bold: the page would show") for text in found)


RIGHT_BLOCKS = [
    ("tr", "## In {numref}`fig-a`", "## {numref}`fig-a` içinde"),
    ("tr", "Of {glue:text}`x` s.", "%{glue:text}`x` oranında."),
    ("tr", "On GPUs, $k$ of them.", "GPU'larda, $k$'sında."),
    ("tr", "In {glue:text}`x` of the time.", "Sürenin {glue:text}`x`'sinde."),
    ("tr", "$2000 \\cdot 0.004 = 8$ ms.", "$2000 \\cdot 0{,}004 = 8$ ms."),
    ("tr", "The launches' lane is full.", "Başlatmaların şeridi doludur."),
    ("tr", "PyTorch 2.11 takes 0.5 s.", "PyTorch 2.11 ile 0,5 s sürer."),
    ("tr", "It is so from 2.13 on, in PyTorch.", "PyTorch'ta 2.13'ten beri böyledir."),
    ("tr", "It is in chapter 3.", "Bu, 3. bölümdedir."),
    ("tr", "About 60 million parameters.", "Yaklaşık 60 milyon parametre."),
    ("tr", "GPUs 1 to 3 send.", "1, 2 ve 3 numaralı GPU'lar gönderir."),
    ("ko", "About 60 million parameters.", "파라미터 약 6000만 개."),
    ("zh", "About 60 million parameters.", "约6000万个参数。"),
    ("ko", "In A (June 2026) it hung.", "A(2026년 6월)에서 멈췄습니다."),
    ("zh", "Two GPUs share it.", "2块GPU分担它。"),
    ("ko", "2 GPUs share it.", "GPU 두 개가 나눕니다."),
    ("zh", "2 GPUs share it.", "两块GPU分担它。"),
    ("ko", "The clock says {glue:text}`x`.", "시계는 {glue:text}`x`를 가리킵니다."),
    ("zh", "Its shape is (10, 20), say.", "例如，它的形状是(10, 20)。"),
    ("zh", "- **GPipe**: all first.", "- **GPipe**：全部在先。"),
    ("zh", "The tensor $A_{i}$ is `x[1:2]`.", "张量$A_{i}$是`x[1:2]`。"),
    (
        "ko",
        ":::{guess} With 256\n:right: 2\n:answer: twice",
        ":::{guess} 256개로\n:right: 2\n:answer: 두 배",
    ),
    ("zh", "| a (MB) | b |\n|---|---|\n| one | 2 |", "| 甲（MB） | 乙 |\n|---|---|\n| 一 | 2 |"),
    ("zh", "$$\na \\text{ if } b\n$$ (eq-a)", "$$\na \\text{ 若 } b\n$$ (eq-a)"),
    ("tr", "a picture of 2 GPUs, 24&nbsp;minutes", "2 GPU'nun bir resmi, 24&nbsp;dakika"),
    ("ko", "A GPU processes one of them.", "GPU는 그중 하나를 처리합니다."),
    ("tr", "guessing: 0.1", "rastgele tahmin: 0.1"),
    ("tr", "in step 0 device i sends", "0. adımda i cihazı gönderir"),
    ("tr", "`f(a,\n  b)` is a sum.", "`f(a, b)` bir toplamdır."),
    ("tr", r"$a_{\text{on } j}$ is it.", r"$a_{j \text{ üzerinde}}$ odur."),
    ("ko", "- find the rank.", "- 랭크 찾기"),
    ("ko", "Open it at <https://a.b>.", "그것을 <https://a.b>에서 여세요."),
    ("ko", "First encode, then right.", "encode 다음에 right."),
    ("ko", "a picture, 24&nbsp;minutes", "그림, 24&nbsp;분"),
    ("ko", "```\nx = 1  # one\n# both\n```", "```\nx = 1  # 하나\n# 둘 다\n```"),
    ("tr", "Fewer GPUs than {n}", "{n} sayısından az GPU"),
    ("ko", "In the backward pass, DDP is slow.", "역방향 패스에서 DDP는 느립니다."),
    ("tr", "Its kernels overlap.", "Çekirdekleri örtüşür."),
    ("tr", "The losses, the nodes, the weights.", "Kayıplar, düğümlerin ağırlığı."),
]


@pytest.mark.parametrize(("language", "english", "translated"), RIGHT_BLOCKS)
def test_a_right_block_passes(language, english, translated):
    assert reports(language, english, translated) == []


WRONG_BLOCKS = [
    ("ko", ":::{guess} A\n:right: 2", ":::{guess} 가\n:right: 3", "missing option :right: 2"),
    ("ko", ":::{dropdown} A", "가", "missing fence :::{dropdown}"),
    ("ko", "## A", "### 가", "missing heading ##"),
    ("tr", "It is in step 3.", "3. adımdadır.", "added list item 3."),
    ("ko", "3. a", "2. 가", "missing list item 3."),
    ("ko", "| a | b |\n|---|---|", "| 가 |\n|---|", "missing table row of 2 cells"),
    ("ko", "```\nx = 1  # one\n```", "```\nx = 2  # 하나\n```", "missing code x = 1  #\n```"),
    ("ko", "$$\na \\text{ if } b\n$$", "$$\nb \\text{ 면 } b\n$$", r"missing formula $\textab{}$"),
    ("ko", "Fewer than {n}", "{m}보다 적음", "missing field {n}"),
    ("ko", "{ref}`words <a>`", "{ref}`말 <b>`", "missing role {ref}`a`"),
    ("ko", "![A](img/a.svg)", "![가](img/b.svg)", "missing link (img/a.svg)"),
    ("ko", "<b>A</b>", "<i>가</i>", "missing tag <b>"),
]


@pytest.mark.parametrize(("language", "english", "translated", "said"), WRONG_BLOCKS)
def test_other_markup_is_found(language, english, translated, said):
    assert f"error: markup: {said}" in reports(language, english, translated)


WRONG_NUMBERS = [
    ("tr", "`a` takes 0.5 s.", "`a` 0.5 s sürer.", "a decimal point in 0.5"),
    ("tr", "It takes 0.5 s.", "0.6 s sürer.", "missing 0.5"),
    ("tr", "$a$ has 12,288 rows.", "$a$ 12,288 satırlıdır.", "missing 12,288"),
    ("zh", "About 60 million of them.", "约600万个。", "missing 60"),
    ("ko", "It is a sum.", "합 7개입니다.", "added 7"),
    ("ko", "In A (June 2026) it hung.", "A(2026년 7월)에서 멈췄습니다.", "added 7"),
]


@pytest.mark.parametrize(("language", "english", "translated", "said"), WRONG_NUMBERS)
def test_other_numbers_are_found(language, english, translated, said):
    assert f"error: numbers: {said}" in reports(language, english, translated)


@pytest.mark.parametrize("language", RIGHT)
def test_lost_sentences_are_found(language):
    three = {
        "tr": "İlk bekler. İkinci çalışır. Üçüncü uyur.",
        "ko": "첫째는 기다립니다. 둘째는 일합니다. 셋째는 잡니다.",
        "zh": "第一个等待。第二个工作。第三个睡觉。",
    }[language]
    english = "The first waits. The second works. The third sleeps."
    assert reports(language, english, three) == []
    one = re.split(r"(?<=[.。])", three)[0]
    assert "warning: sentences: 1 in place of 3" in reports(language, english, one)
    assert any("warning: length" in text for text in reports(language, "A long one " * 20, one))


def test_the_register_of_korean_does_not_change_within_a_block():
    found = reports("ko", "It waits. It works.", "기다립니다. 일한다.")
    assert found == ["warning: register: both -습니다 and -다"]
    assert reports("ko", "Let us wait. It works.", "기다려 봅시다. 일합니다.") == []


def test_the_first_use_of_a_term_carries_the_english():
    pairs = [
        ("## The bubble", "## 气泡"),
        ("A bubble is idle time.", "气泡（bubble）是空闲时间。"),
        ("Each bubble costs.", "每个气泡都有代价。"),
    ]
    assert first_uses("zh", pairs, TERMS["zh"]) == []
    assert first_uses("zh", pairs[2:], TERMS["zh"]) == ["first use: 气泡 without (bubble)"]


def test_the_english_of_a_longer_term_counts():
    pairs = [
        ("The copy engine is busy.", "复制引擎（copy engine）很忙。"),
        ("An engine waits.", "引擎在等待。"),
    ]
    assert first_uses("zh", pairs, TERMS["zh"]) == []


def test_the_english_may_wait_for_the_definition():
    pairs = [
        ("We shorten the bubble.", "我们缩短气泡。"),
        ("The **bubble** is idle time.", "**气泡**（bubble）是空闲时间。"),
    ]
    assert first_uses("zh", pairs, TERMS["zh"]) == []
    assert first_uses("zh", [pairs[0], ("", "")], TERMS["zh"])


@pytest.mark.parametrize("language", RIGHT)
def test_only_terms_that_say_so_carry_the_english(language):
    assert first_uses(language, [("Bandwidth counts.", "x")], TERMS[language]) == []


def rows():
    with open(terms.PATH, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_each_entry_of_the_glossary_is_a_term():
    text = (ROOT / "glossary.md").read_text(encoding="utf-8")
    entries = re.search(r"```\{glossary\}\n(.*?)```", text, re.DOTALL)[1].split("\n")
    names = [line for line in entries if line and not line.startswith(" ")]
    known = {
        spelling
        for found in TERMS["ko"].of.values()
        for term in found
        for spelling in term.spellings
    }
    assert [name for name in names if name not in known] == []


def test_the_table_of_terms_is_complete_and_has_no_term_twice():
    assert [name for name, times in Counter(row["en"] for row in rows()).items() if times > 1] == []
    for row in rows():
        assert all(row[column].strip() for column in ("en", "tr", "ko", "zh", "source")), row
        assert set(row["first_use"].split()) <= {"tr", "ko", "zh"}


@pytest.mark.parametrize("language", RIGHT)
def test_each_term_is_found_in_its_own_word(language):
    for row in rows():
        name = re.sub(r" \(.*\)", "", row["en"])
        assert list(terms.missing(language, name, row[language], TERMS[language])) == []


def test_inflected_turkish_words_count():
    pairs = [("kernel", "ÇEKİRDEĞİNİ"), ("bandwidth", "bant genişlikleri"), ("loss", "kaybın")]
    for english, turkish in pairs:
        assert list(terms.missing("tr", english, turkish, TERMS["tr"])) == []


def test_a_longer_term_hides_the_terms_inside_of_it():
    used = [found[0].english for found, _ in terms.used("Tensor parallelism", TERMS["ko"])]
    assert used == ["tensor parallelism"]


def test_the_english_of_a_page_agrees_with_itself_in_all_rules_of_form():
    text = (ROOT / "intro.md").read_text(encoding="utf-8")
    for part in text.split("\n\n"):
        marks, _ = block.take_apart(part)
        assert block.differing(marks, block.take_apart(part)[0]) == []
        assert list(block.stars(part, part)) == []


@pytest.mark.parametrize(
    ("value", "suffixed"),
    [
        ("%24", "ünü ü te ün lük"),
        ("59", "unu u da un luk"),
        ("%6", "sını sı da nın lık"),
        ("40", "ını ı ta ın lık"),
        ("1.300", "ünü ü de ün lük"),
        ("3.000", "ini i de in lik"),
        ("0,05", "ini i te in lik"),
        ("1,20", "sini si de nin lik"),
        ("2,0", "ını ı da ın lık"),
        ("7,3 ms", "sini si de nin lik"),
        ("13 milyon", "unu u da un luk"),
    ],
)
def test_a_suffix_follows_the_number_as_it_is_read(value, suffixed):
    after_two = ["sini", "si", "de", "nin", "lik"]
    assert [suffixes.harmonised(value, suffix) for suffix in after_two] == suffixed.split()


def test_suffixes_are_put_at_glued_numbers_alone():
    text = "{glue:text}`a`'sinde, {glue:text}`p.ipynb::b:s`'den çok, `a`'da"
    shown = {"a": "%24", "p.ipynb::b:s": "40"}
    put = suffixes.put(text, shown.__getitem__)
    assert put == "{glue:text}`a`'ünde, {glue:text}`p.ipynb::b:s`'tan çok, `a`'da"
    with pytest.raises(ValueError, match="put a noun there"):
        suffixes.harmonised("0,5 s (simüle)", "de")


@pytest.mark.parametrize(
    ("english", "translated", "said"),
    [
        ("The others wait.", "Ötekiler bekler.", "ötekiler, say diğer"),
        ("It is too large.", "Üç kat fazla büyük.", "kat fazla, say olması gerekenin ... katı"),
        ("Four stripes are a sum.", "Dört şerit toplamdır.", "şerit, say çizgi"),
    ],
)
def test_an_avoided_word_is_found(english, translated, said):
    assert any(
        text.startswith(f"error: avoided: {said}") for text in reports("tr", english, translated)
    )


def test_each_avoided_word_is_one():
    for path in (ROOT / "editions").glob("*/avoided.csv"):
        rows = avoided.read(path.parent.name)
        assert rows
        assert len({pattern.pattern for pattern, _, _ in rows}) == len(rows)

"""The typography of each language, and English that was left in a translated block."""

# ruff: noqa: RUF001, SIM905

import re
from operator import and_

from tools.editions.rules.suffixes import AFTER_TWO

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HANGUL = "\uac00-\ud7a3"
SKIPPED = re.compile(  # one letter stands for each of these, so that what is beside it is seen
    r"(?P<number>\{glue[\w:]*\}`[^`]*`)|(?P<glue>\{(?:numref|eq)[\w:]*\}`[^`]*`)|(?P<field>\{[a-z_]*\}(?!`))"
    r"|(?P<role>\{[\w:+-]+\}`[^`]*`)"
    r"|(?P<code>(?<!`)(`+)(?!`).+?(?<!`)\6(?!`)|\$\$.+?\$\$|(?<!\\)\$[^$]+\$|<https?:[^<>]*>)"
    r"|(?P<link>(?<=\])\([^()\s]*\)|</?[A-Za-z][^<>:]*(?:\"[^<>]*)?>|&\w+;)",
    re.DOTALL,
)
STAND_IN = {
    "number": "\x02", "glue": "\x02", "field": "\x02", "role": "\x03", "code": "\x01", "link": ""
}  # fmt: skip
MACHINE_LINE = re.compile(r"^(?::{3,}\{[\w-]+\}|:[a-z][\w-]*:(?=\s)|#{1,6} )", re.MULTILINE)
BOLD_END = re.compile(rf"([，。：；？！、）])(\*\*) *(?=[{HAN}A-Za-z0-9\x01-\x03])")
SHAPE = re.compile(r"\([\d\s,.×\x01-\x04]+\)")  # (10, 20) keeps its half-width brackets
FENCED = re.compile(r"(?:`{3,}|~{3,})(?!\{glossary)")

RULES = {
    "tr": [
        (r"[\x02\x03]['’]\w*", "a suffix at a role, put a noun there"),
        (r"\x02[a-zçğıöşüâî]+", "a suffix at a role, put a noun there"),
        (
            rf"\x04(?:[a-zçğıöşüâî]|['’](?!(?:{'|'.join(AFTER_TWO)})(?!\w)))\w*",
            "a suffix at a glued number, write it as after iki",
        ),
        (r"(?:\d|[\x02\x04]) ?%(?!\w)", "% goes in front"),
        (
            r"(?<![\w-])(?:GPU|CPU|CUDA|NCCL|LeNet|ResNet|PyTorch|NVLink|PCIe|NVIDIA|DDP|FSDP"
            r"|ZeRO|MFU|[AHV]100)(?:lar|ler|da|de|ta|te|dan|den|ya|ye|yı|yi|yu|yü|nun|nin|ın|in"
            r"|un|a|e|ı|i|u)(?:[ıi]?n?[ıi]?|da|de|daki|deki|dan|den)(?![\w])",
            "an apostrophe is missing",
        ),
        (r"[，。：；？！（）]", "full width"),
    ],
    "ko": [
        (r"[，。：；？！（）、]", "full width"),
        (
            rf"[{HANGUL}\x01-\x03A-Za-z0-9)]\s+(?:은|는|을|를|의|에|로|와|과|에서|으로)(?=[\s.,])",
            "space before a particle",
        ),
        (
            r"\x02(?:은|이|을|과|으로)(?=[\s.,)]|$)",
            "a particle after a consonant at a value: put a counter there, or 는, 가, 를, 와, 로",
        ),
    ],
    "zh": [
        (rf"[{HAN}][,;:?!]|[{HAN}]\.(?![\w.])|[,;:?!](?=[{HAN}])", "half width"),
        (rf"[{HAN}），。]\(|\((?=[{HAN}])|\)(?=[{HAN}])|[{HAN}]\)", "half width"),
        (rf"[{HAN}] +[A-Za-z0-9\x01-\x03]|[A-Za-z0-9\x01-\x03%] +[{HAN}]", "space"),
        (rf"[{HAN}] +[{HAN}]|[，。；：？！、）]+ +[{HAN}A-Za-z0-9\x01-\x03]", "space"),
        (rf"[{HAN}\x01-\x03A-Za-z0-9] +[，。；：？！、（）]", "space"),
        (r"[\d\x02] +%(?!\w)", "space"),
        (rf"(?<=[{HAN}，。])[\"']|[\"'](?=[{HAN}])", "straight quotation mark"),
        (r"您|(?<![申邀])请(?!求)", "the reader is 你, without 请"),
        (r"[０-９Ａ-Ｚａ-ｚ]", "full width"),
        (rf"[{HAN}]\.\.\.", "…… for an ellipsis"),
    ],
}
RULES = {
    code: [(re.compile(pattern), why) for pattern, why in rules] for code, rules in RULES.items()
}
BROKEN_LINE = re.compile(r"(\S)\n(?!\s*(?:[-*+|:>]|\d+\. |#)|\s|\s*$)(\S)")
AT_FORMULA = re.compile(  # Korean: nobody knows how its number is read, and what ends before it
    r"\{eq\}`[^`]*`(?:은|는|이|가|을|를|과|와|로|으로)(?![가-힣])"
    r"|^(?:의|만큼(?:의|이)?|이므로|입니다|이고|이며|을|를|가|은|는)(?=[ ,.])",
    re.MULTILINE,
)
POLITE = re.compile(r"(?:니다|니까|세요|까요|시오|죠|어요|아요|해요)[.?!]")
PLAIN = re.compile(r"(?<![니시])다\.(?=\s|$)")

FUNCTION_WORDS = frozenset(
    "the of and is are was were with that from which each this these those its it to as by for "
    "when than not or but if then because so we you they has have does do can may must be been "
    "would could into only where how what why while there their our your".split()
)
IN_TURKISH = frozenset("to as for so do on at in an o her ne be bin".split())
ALLOWED = frozenset(
    "to vs by cpu gpu gpus cpus mb gb kb tb ms ns us mbit gbit kib mib gib fp bf flop flops tflop "
    "tflops float float32 int nan inf python numpy torch cuda nccl ring d2l mini simulated sim "
    "rank world size token softmax http https www org com html ipynb md py sh make pip git lab "
    "live make nvidia smi id ids ok pdf png svg zip csv json yaml url api cli log exp relu gelu "
    "sin cos max min mean sum top lr dim sgd adam adamw momentum mlp bug in place".split()
)
LATIN_RUNS = [  # Han and Hangul end a word, Turkish letters do not
    re.compile(r"(?<![\w/.@-])[A-Za-z][a-z]+(?:[ -][A-Za-z]?[a-z]+)*(?![\w/@(]|\.\w)", flag)
    for flag in (re.ASCII, re.UNICODE)
]
ASIDE = re.compile(r"[（(][^（()）]*[）)]|《[^》]*》|“[A-Za-z][^”]*”|\"[^\"]*\"|\*[A-Za-z][^*]*\*")


def slips(language, block):
    """Yield what the typography of a language forbids.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    block : str
        the translated block
    """
    if FENCED.match(block):
        return
    if language == "ko":
        for match in AT_FORMULA.finditer(block):
            yield f"a particle at a formula, put a noun there or end the sentence {match[0]!r}"
    stand_in = STAND_IN | ({"number": "\x04"} if language == "tr" else {})
    text = SKIPPED.sub(lambda match: stand_in[match.lastgroup], MACHINE_LINE.sub("", block))
    if language == "zh":
        for match in BOLD_END.finditer(text):
            yield f"punctuation goes behind bold, {match[2] + match[1]!r}"
        text = BOLD_END.sub("", text)
    text = SHAPE.sub("\x01", text.replace("**", ""))
    for pattern, why in RULES[language]:
        for match in pattern.finditer(text):
            shown = re.sub("[\x01-\x04]", "…", match[0])
            yield f"{why} {shown!r}"
    if language == "zh" and (match := BROKEN_LINE.search(text)) and not text.startswith("|"):
        yield f"one line a paragraph {match[1] + '⏎' + match[2]!r}"


def doubts(language, prose):
    """Yield what only may be wrong."""
    if language == "ko" and POLITE.search(prose) and PLAIN.search(prose):
        yield "register: both -습니다 and -다"


def left_over(language, english, translated, terms):
    """Yield English words that a translator may have left.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    english, translated : str
        the prose of both blocks
    terms : terms.Terms
        of the language; what it keeps in English is allowed
    """
    if not re.search(r"[a-z]{2}", translated):
        return
    said = set(re.findall(r"[a-z]{2,}", english.lower()))
    for run in LATIN_RUNS[language == "tr"].findall(ASIDE.sub(" ", translated)):
        every = re.findall(r"[A-Za-z][a-z]+", run)
        if language == "tr":
            function = [word for word in every if word in FUNCTION_WORDS - IN_TURKISH]
            if any(word in said for word in function):
                yield f"English: {run}"
                continue
        foreign = [
            word.islower() and word in said and word not in ALLOWED and word not in terms.kept
            for word in every
        ]
        alone = language != "tr" and any(
            map(and_, foreign, (word in FUNCTION_WORDS for word in every))
        )
        if alone or any(map(and_, foreign, foreign[1:])):
            yield f"English: {run}"

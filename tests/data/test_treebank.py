"""Words as nltk cuts them: a table of what it gave, and nltk itself where it is at hand."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.data.collections import open_data
from vsepp.data.treebank import cutter_of, treebank_words, treebank_words_of_2017

# A text, its words according to nltk 3.10.4, and according to 3.2.4 where that differs.
TABLE = [
    ("A dog runs .", "a dog runs ."),
    ("Two dogs don't run; they're asleep.", "two dogs do n't run ; they 're asleep ."),
    (
        "The child's kite isn't flying, it's stuck.",
        "the child 's kite is n't flying , it 's stuck .",
    ),
    ("They'll say \"hello\" and she'd wave.", "they 'll say `` hello '' and she 'd wave ."),
    ('"Stop!" said the man\'s son.', "`` stop ! '' said the man 's son ."),
    (
        "A sign that says 'no parking'",
        "a sign that says ' no parking '",
        "a sign that says 'no parking '",
    ),
    (
        "A sign reads 'stop' and 'go'.",
        "a sign reads ' stop ' and ' go ' .",
        "a sign reads 'stop ' and 'go ' .",
    ),
    ("A slip 'n slide in the players' yard", "a slip 'n slide in the players ' yard"),
    ("'tis a dog , 'twas a cat .", "' tis a dog , ' twas a cat .", "'t is a dog , 't was a cat ."),
    (
        "She cannot, gonna, gotta, wanna and gimme a hug; lemme go.",
        "she can not , gon na , got ta , wan na and gim me a hug ; lem me go .",
    ),
    ("D'ye like it more'n cake?", "d 'ye like it more 'n cake ?", "d 'ye like it more'n cake ?"),
    (
        "A man (in red) and a [blue] {green} <thing>",
        "a man ( in red ) and a [ blue ] { green } < thing >",
    ),
    ("A cat -- black - and well-fed --sleeps", "a cat -- black - and well-fed -- sleeps"),
    (
        "A field... with cows.... and sky..",
        "a field ... with cows .... and sky ..",
        "a field ... with cows ... . and sky..",
    ),
    ("Three birds.. one tree.", "three birds .. one tree .", "three birds.. one tree ."),
    (
        "A train at 12:30, 1,000 people: $5.50 (3.5%)",
        "a train at 12:30 , 1,000 people : $ 5.50 ( 3.5 % )",
    ),
    ("Colors: red,green , blue:white", "colors : red , green , blue : white"),
    ("A boat,, a sail,:a mast", "a boat , , a sail , :a mast"),
    (
        "Mr. Smith and Dr. Jones live in the U.S. with St. Bernard dogs.",
        "mr. smith and dr. jones live in the u.s. with st. bernard dogs .",
    ),
    ("He works for Acme Inc. and she for the U.N.", "he works for acme inc. and she for the u.n ."),
    ("The bus comes at 5 p.m. to the park.", "the bus comes at 5 p.m. to the park ."),
    ("He is no. 5. He runs.", "he is no . 5. he runs ."),
    ("She has 5. dogs run.", "she has 5. dogs run ."),
    ("He was born in 1999. The dog was not.", "he was born in 1999. the dog was not ."),
    ("Plan b. the dog eats. Plan c! a cat?", "plan b. the dog eats . plan c ! a cat ?"),
    ("He met J. Doe. he met k. roe.", "he met j. doe . he met k. roe ."),
    ("Meet at 10.5. then go", "meet at 10.5. then go"),
    ("Room 5. administrators wait", "room 5 . administrators wait"),
    ("A dog runs. A cat sleeps.A bird sings", "a dog runs . a cat sleeps.a bird sings"),
    ("The end.) The start.", "the end . ) the start ."),
    ("(A man runs.) A dog barks.", "( a man runs . ) a dog barks ."),
    ('He says "go." then leaves.', "he says `` go . '' then leaves ."),
    ('He said "a dog." "a cat."', "he said `` a dog . '' `` a cat . ''"),
    ("Is it a dog?! yes!! maybe?", "is it a dog ? ! yes ! ! maybe ?"),
    ("wow!!! what a jump!!", "wow ! ! ! what a jump ! !"),
    ("An e.g. here, etc. and i.e. there.", "an e.g . here , etc . and i.e . there ."),
    (
        "a man in a t-shirt w/ a and/or b @ home #1 & more",
        "a man in a t-shirt w/ a and/or b @ home # 1 & more",
    ),
    (
        "a 50% off sale *now* ~ = + ^ |",
        "a 50 % off sale * now * ~ = + ^ |",
        "a 50 % off sale *now* ~ = + ^ |",
    ),
    ("rock 'n' roll and the '90s", "rock 'n ' roll and the ' 90s", "rock 'n ' roll and the '90s"),
    ("the dogs' bowls and the boss's hat", "the dogs ' bowls and the boss 's hat"),
    ("I'm, you've, we'd, n't, 's alone", "i 'm , you 've , we 'd , n't , 's alone"),
    (
        "``quoted'' and `single` marks",
        "`` quoted '' and ` single ` marks",
        "`` quoted '' and `single` marks",
    ),
    (
        "\"\"double\"\" and '''triple'''",
        "`` `` double '' '' and `` ' triple '' '",
        "`` `` double '' '' and ' '' triple '' '",
    ),
    (
        "“Curly quotes” and ‘single ones’ don’t match",
        "“ curly quotes ” and ‘ single ones ’ don ’ t match",
    ),
    (
        "«Guillemets» and „low“ quotes.",
        "« guillemets » and „ low “ quotes .",
        "« guillemets » and „low “ quotes .",
    ),
    ("A – dash — and ‒ another ― one", "a – dash — and ‒ another ― one"),
    ("A café, naïve façade; Straße.", "a café , naïve façade ; straße ."),
    ("日本語の犬。 走る", "日本語の犬。 走る"),
    ("good dog 🐕 ... ok", "good dog 🐕 ... ok"),
    ("tab\tand\nnewline. next   spaces", "tab and newline . next spaces"),
    ("u.s.a. is not the u.s.", "u.s.a. is not the u.s ."),
    ("ph.d. students vs. prof. x. in ave. y", "ph.d. students vs. prof. x. in ave. y"),
    ("a ex-gov. and vice-pres. and lt.-col. meet", "a ex-gov . and vice-pres . and lt.-col. meet"),
    ("trailing comma,", "trailing comma ,"),
    ("trailing colon:", "trailing colon :"),
    (".", "."),
    ("?", "?"),
    ("", ""),
]


@pytest.fixture(scope="module")
def word_tokenize():
    tokenize = pytest.importorskip("nltk", reason="needs nltk (pip install nltk)").word_tokenize
    try:
        tokenize("a dog")
    except LookupError:
        pytest.skip("needs nltk's data: python -m nltk.downloader punkt_tab, or NLTK_DATA=FOLDER")
    return tokenize


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_words_are_those_that_nltk_gave(row):
    assert " ".join(treebank_words(row[0])) == row[1]
    assert " ".join(treebank_words_of_2017(row[0])) == row[-1]


@pytest.mark.slow
def test_the_table_is_still_what_nltk_gives(word_tokenize):
    for text, words, *_ in TABLE:
        assert " ".join(word_tokenize(text.lower())) == words


@pytest.mark.slow
def test_random_texts_are_cut_as_nltk_cuts_them(word_tokenize):
    words = [word for row in TABLE for word in row[0].split()]
    generator = random.Random(0)
    for number in range(3000):
        glue = " " if number % 2 else ""
        text = glue.join(generator.choices(words, k=generator.randint(1, 10)))
        assert treebank_words(text) == word_tokenize(text.lower()), text


@pytest.mark.slow
def test_no_caption_of_flickr8k_is_cut_differently(word_tokenize, flickr8k):
    captions = [caption for item in open_data(str(flickr8k)).items for caption in item.captions]
    assert len(captions) == 40_000
    differing = [c for c in captions if treebank_words(c) != word_tokenize(c.lower())]
    assert differing == []
    (era,) = [c for c in captions if treebank_words(c) != treebank_words_of_2017(c)]
    assert "slip n 'slide" in era


def test_a_vocabulary_shows_by_which_rules_it_was_made():
    assert cutter_of(["a", "dog", "n't", "'s", "``", "...", "u.s.", "..", "*"]) == "nltk-3.10"
    for word in ("field..", "'stop", ".`", "*now*"):
        assert cutter_of(["a", "dog", word]) == "nltk-3.2"
    for row in TABLE:
        assert cutter_of(treebank_words(row[0])) == "nltk-3.10"


@given(st.text())
def test_nothing_but_quotes_and_spaces_is_changed(text):
    for cut in (treebank_words, treebank_words_of_2017):
        left = text.lower().translate(str.maketrans("", "", "\"'`"))
        words = "".join(cut(text)).translate(str.maketrans("", "", "'`"))
        assert words == "".join(left.split())

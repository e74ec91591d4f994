"""Pairs of questions and answers of one language each, from files in SQuAD's format.

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020: towers trained on English
alone are En-En, and on all languages at once X-X.
"""

from lsar_jax.checks import check_option
from lsar_jax.corpora.by_language import chosen
from lsar_jax.corpora.question_answers import Squad, answer_texts, groups_of, held_out_ids, question_texts
from lsar_jax.corpora.tables import Data, folder_of
from train.text import TextOptions, TrainingPairs

__all__ = ["question_pairs"]


def question_pairs(data: Data, options: TextOptions, question_text: str, answer_text: str) -> TrainingPairs:
    """Returns the training and validation pairs of texts of questions and of answers, of each language.

    Whole paragraphs, and their translations, are held out, until they have ``options.held_out`` questions; of the
    others, ``options.validation`` is used for validation.
    """
    count = int(options.held_out)
    check_option(count == options.held_out, "a whole number of questions", held_out=options.held_out)
    folder = folder_of(data, "files in SQuAD's format are read from a folder; give the folder")
    known = Squad.known(folder)
    codes = chosen(dict.fromkeys(known), options.languages or None, folder, "{}.json")
    # Of all languages, so that the split does not depend on those that are trained on.
    every = {code: Squad.load(folder, code, "test") for code in known}
    _, others = held_out_ids(groups_of(every, options.split_seed), count)
    validated, others = held_out_ids(others, round(options.validation * sum(map(len, others))))
    order = {id: number for number, id in enumerate(id for group in others for id in group)}
    result: TrainingPairs = {}
    for code in sorted(codes):
        asked, texts = question_texts(every[code], question_text), answer_texts(every[code], answer_text)
        pairs = {
            id: (question, texts[answer])
            for id, question, answer in zip(every[code].ids, asked, every[code].answers, strict=True)
        }
        train = [pairs[id] for id in sorted(pairs.keys() & order.keys(), key=order.__getitem__)]
        validation = [pair for id, pair in pairs.items() if id in validated]
        result[code] = options.of_language(f"{folder}, {code}", train, validation)
    return result

"""Chat templates: a text becomes the message of a user, and a prompt that of the system before it.

Where sentence-transformers 6 saves a model whose tokenizer has a template, it writes ``message`` to
``modality_config``, and then encodes each text in the template.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lsar_jax.checks import check_choice

__all__ = ["ChatTemplate", "form_of"]


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer.

    Attributes:
      tokenizer: a tokenizer of transformers.
      form: how the template takes a text: ``flat``, as a string, or ``structured``, as a list of one part.
    """

    tokenizer: Any
    form: str

    def __post_init__(self) -> None:
        check_choice("the format of message in modality_config", self.form, ("flat", "structured"))
        if "strftime_now" in self.tokenizer.get_chat_template():
            raise ValueError("the chat template writes the day, with which vectors would change; remove strftime_now")

    def render(self, prompt: str, sentences: Sequence[str]) -> list[str]:
        """Returns the text to tokenize for each sentence.

        Raises:
          ValueError: the template fails, as those do that take no message of the system.
        """
        system = [self._message("system", prompt)] if prompt else []
        chats = [[*system, self._message("user", sentence)] for sentence in sentences]
        try:
            return self.tokenizer.apply_chat_template(chats, tokenize=False) if chats else []
        except ImportError:
            raise
        except Exception as error:  # of jinja, or raised by the template
            raise ValueError(f"the chat template fails{' with a prompt' * bool(prompt)}: {error}") from error

    def _message(self, role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": text if self.form == "flat" else [{"type": "text", "text": text}]}


def form_of(template: Any) -> str:
    """Returns the form of a template whose folder does not say it, by what sentence-transformers looks for."""
    parts = ("content[0]", "message.content[", ".type", "'type'", '"type"')
    return "structured" if not isinstance(template, str) or any(part in template for part in parts) else "flat"

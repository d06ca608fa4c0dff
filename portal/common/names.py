"""Rules for names."""

from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy

NAME_RULE = r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z"
NAME = RegexValidator(NAME_RULE, gettext_lazy("Letters, digits, dot, dash and underscore only."))
CELL_TYPE_LENGTH = 100
"""A SKU's name plus what its larger cells append to it."""

"""Chromium, to look at pages."""

import shutil

import pytest

from tests.optional import missing, need


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    playwright = need("playwright.sync_api")
    if (path := shutil.which("chromium")) is None:
        missing("chromium is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()

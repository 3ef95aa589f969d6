"""A page in the browser that shows what flows do, live; where the host allows it, it also changes them."""

from __future__ import annotations

from thalweg.page.actions import Action
from thalweg.page.feed import Shown
from thalweg.page.server import Page, asked_page, page_address, serve_page

__all__ = ["Action", "Page", "Shown", "asked_page", "page_address", "serve_page"]

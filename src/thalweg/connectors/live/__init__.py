"""Inputs that give a row once, as it comes, for runs in this process; and HTTP as an output."""

from thalweg.connectors.live.http_post import http_post
from thalweg.connectors.live.http_target import to_http
from thalweg.connectors.live.mqtt import mqtt
from thalweg.connectors.live.websocket import websocket

__all__ = ["http_post", "mqtt", "to_http", "websocket"]

"""Inputs that give a row once, as it comes, for runs in this process; and HTTP as an output."""

from thalweg.connectors.live.mqtt_topics import mqtt
from thalweg.connectors.live.post_server import http_post
from thalweg.connectors.live.posting import to_http
from thalweg.connectors.live.web_sockets import websocket

__all__ = ["http_post", "mqtt", "to_http", "websocket"]

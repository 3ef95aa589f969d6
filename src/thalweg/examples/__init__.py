"""Flows over real and generated input, each with a ``flow``, a ``main()`` and a test that knows the right answer.

Run one with ``python -m thalweg.examples.web_sessions``, or take its flow to your own input with ``thalweg run``.
"""

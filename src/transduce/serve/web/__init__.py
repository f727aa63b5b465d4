"""What the service understands over HTTP: the protocols of LibreTranslate and DeepL, its own, and a page."""

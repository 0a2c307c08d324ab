"""What others may see of a running agent or environment: over HTTP, over MQTT, and by systemd."""

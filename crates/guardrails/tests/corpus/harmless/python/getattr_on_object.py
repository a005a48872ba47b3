class Counter:
    def on_start(self):
        return "started"

    def on_stop(self):
        return "stopped"

counter = Counter()
for event in read_file("events.txt").split():
    handler = getattr(counter, f"on_{event}", None)
    print(handler() if handler else f"no handler for {event}")

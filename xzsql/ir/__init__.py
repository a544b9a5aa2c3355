"""What the engine asks of a source, in plain records: no library but the standard one."""

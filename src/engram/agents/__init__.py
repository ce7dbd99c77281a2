"""Acting with memory: what stands around a call, a block or a task, and learns from how it went."""

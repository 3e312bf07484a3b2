"""Host functions run on tensors: what they launch is recorded, replayed by the native core, or listed for a simulator."""

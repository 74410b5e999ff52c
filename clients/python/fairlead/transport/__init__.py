"""HTTP, time and chance: a transport on asyncio, one that blocks, and the retry policy."""

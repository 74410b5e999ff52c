"""The effects of a client (HTTP, time, random numbers) on asyncio and blocking, and its retries."""

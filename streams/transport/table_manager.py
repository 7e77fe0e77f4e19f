"""Starts tables without Faust's fixed wait."""

from faust.tables.manager import TableManager


class PromptTableManager(TableManager):
    """Faust's table manager without the second it sleeps at the start.

    The sleep is for agents that declare tables while they start. Ours are declared before the app runs.
    """

    async def on_start(self) -> None:
        """Register the tables, then start recovering."""
        await self._update_channels()
        await self.recovery.start()

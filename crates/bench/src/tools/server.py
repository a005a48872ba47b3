"""The server that is called: one fast tool, one slow one, and one with long answers (`pages.py`)."""

import asyncio
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pages

from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")
seconds = float(sys.argv[1])


@server.tool()
async def echo(text: str) -> str:
    """Give back the text."""
    return text


@server.tool()
async def nap(text: str) -> str:
    """Give back the text, after a while."""
    await asyncio.sleep(seconds)
    return text


@server.tool()
async def page(kind: str, number: int) -> str:
    """Give back 100 KB."""
    return pages.page(kind, number)


server.run("stdio")

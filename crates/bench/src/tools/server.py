"""The server that is called, with one fast and one slow tool."""

import asyncio
import sys

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


server.run("stdio")

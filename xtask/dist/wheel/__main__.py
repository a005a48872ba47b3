from coracle_mcp import main

main()

def solve(board):
    for index, value in enumerate(board):
        if value == "0":
            row, column = divmod(index, 9)
            used = {board[row * 9 + k] for k in range(9)} | {board[k * 9 + column] for k in range(9)}
            used |= {board[(row // 3 * 3 + k // 3) * 9 + column // 3 * 3 + k % 3] for k in range(9)}
            for digit in set("123456789") - used:
                if found := solve(board[:index] + digit + board[index + 1:]):
                    return found
            return None
    return board

print(solve("0" * 81)[:9])

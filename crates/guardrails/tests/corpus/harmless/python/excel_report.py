from openpyxl import Workbook

book = Workbook()
sheet = book.active
sheet.append(["month", "total"])
for month in range(1, 4):
    sheet.append([month, month * 10])
book.save("/artifacts/report.xlsx")

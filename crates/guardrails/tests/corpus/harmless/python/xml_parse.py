import xml.etree.ElementTree as ET

root = ET.parse("feed.xml").getroot()
for item in root.iter("item"):
    print(item.findtext("title"), item.findtext("pubDate"))

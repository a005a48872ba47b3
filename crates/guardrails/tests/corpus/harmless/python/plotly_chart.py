import plotly.express as px

figure = px.bar(x=["a", "b"], y=[1, 3], title="Counts")
figure.write_html("/artifacts/counts.html")

cat > config.yaml <<END
name: site
date: $(date +%F)
END
cat config.yaml

# expect: dynamic-code
sed 's/#.*//' job.txt | bash

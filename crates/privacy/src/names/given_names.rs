//! Common given names of several languages that are hardly ever anything else in English text.

pub(super) const GIVEN_NAMES: &str = "
    aaron abigail adam adrian agnes ahmed aisha alan albert alejandra alejandro aleksander aleksandra alexander alexandra
    alexei alfonso alfred alice alicia alison amanda amelia amir amit amy ana anastasia anders andrea andreas andrei andrew
    angela angelika anita anja ann anna anne annette annika anthony antoine anton antonio anya arjun arthur arturo astrid
    axel barbara bartosz beatrice beatriz ben benedikt benjamin bernard bernd bjorn björn boris brandon brenda brian brigitte
    bruno camila camille carl carla carlos carmen carol caroline caterina catherine cecilia chandra charles chloe chris
    christina christine christoph christopher claire claudia claudio conor cristina cynthia daniel daniela danielle
    daria david deborah deepak denise dennis diana diego dieter dimitri dmitri dmitry dominik donald donna dorothy
    douglas eduardo edward edwin elena eleanor elias elisa elisabeth elizabeth ella ellen elsa emil emilia emilio emily emma
    enrico enrique eric erica erik erika ernesto esther ethan eugene eva evelyn fabian fabio fatima federico felipe felix
    ferdinand fernanda fernando filip fiona francesca francesco francisco francois françois frank franziska fred frederick
    freya friedrich gabriel gabriela gabriele george gerald gerhard giovanni giulia giuseppe gloria gonzalo gregory greta
    guillaume guillermo gunnar gustavo hannah hanna hans harald harold harry heather hector heidi heinz helen helena helga
    hendrik henri henrik henry hermann hiroshi howard hugo hussein ian ibrahim ignacio igor ingrid irene irina isaac isabel
    isabella isabelle ivan jacob jacqueline jacques jakob james jan jane janet janice jason javier jean jeffrey jennifer
    jeremy jerome jerry jessica jesper joan joanna joao joão johan johann johanna johannes john jonas jonathan jorge jose
    josé josef joseph joshua juan juanita judith judy julia julian julie juliette julio jürgen justin kaori karen
    karin karl karolina katarina kate katharina katherine kathleen kathryn katie katja keiko keith kelly kenji kenneth kevin
    khalid kimberly klaus konrad kristen kristin kristina krzysztof kumar lars laura lauren laurent lawrence lea leila lena
    leonard leonardo leslie lin linda lisa lorenzo louis louise lucas lucia luigi luis luisa lukas lydia maarten magdalena
    magnus malgorzata manuel marc marcel marcin marco marcos margaret margarita maria maría mariana marie marina mario marion
    marius marlene marta martha martin martina mary massimo mateo mateusz mathias matteo matthew matthias maureen maurice
    max maximilian mehmet melanie melissa mia michael michaela michał michel michele michelle miguel mikael mikhail milan
    miriam mohamed mohammad mohammed monica monika muhammad mustafa nadia nancy natalia natalie natasha nathan neil nicholas
    nicola nicolas nicole niels nikita niklas nikolai nina noah nora norman olaf ole oleg olga oliver olivia omar oscar otto
    pablo pamela paola paolo pascal patricia patrick paul paula paulo pavel pedro per peter petra philip philippe phillip
    pierre piotr priya rachel rafael rahul rainer raj rajesh ralph ramon raphael raquel rebecca renata renate rene renee
    ricardo richard rita robert roberta roberto roger roland rolf roman ronald rosa rosemary roxanne ruben rudolf ruth ryan
    sabine samantha samuel sandra sanjay sara sarah sebastian serge sergei sergio sharon shirley silvia simon simone
    sofia sofie sonia sophia sophie stacey stefan stefania stephanie stephen steven stewart stuart susan susanne suresh
    suzanne sven svetlana sylvia takashi tamara tanya tatiana terrence teresa theodore theresa thomas tiffany tim timothy
    tobias tomas tomasz tommaso torsten tracy tyler ulrich ulrike ursula uwe valentina valeria vanessa vera veronica
    victor vijay vikram vincent viola vladimir walter wendy werner wilhelm willem william winston wolfgang xavier yasmin
    yolanda yosef yuki yuri yusuf yvonne zachary zoe zofia
";
